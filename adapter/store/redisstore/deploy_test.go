//go:build unix

package redisstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// TestSentinel: the store finds the master by its name, and its successor when
// the master is dead. The run goes on where the successor has it.
func TestSentinel(t *testing.T) {
	master := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	redisserver.Start(t, "--replicaof", host+" "+port)
	sentinel := redisserver.StartSentinel(t, "edge", master)
	o, err := ParseURL("redis+sentinel://" + sentinel.Addr + "/edge")
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = time.Second
	st := open(t, o)
	submitted(t, st, offer("s", "q"), store.Started)
	if n := master.Do("WAIT", 1, 20_000); n != "1" {
		t.Fatalf("the replica does not follow: %s", n)
	}
	eventually(t, "the sentinel sees the replica", func() bool {
		return strings.Contains(sentinel.Do("SENTINEL", "MASTER", "edge"), "num-slaves 1") ||
			strings.Contains(sentinel.Do("SENTINEL", "MASTER", "edge"), "num-slaves:1")
	})
	master.Kill()
	batch := deltas("s", "run-q", 1, 1)
	eventually(t, "the successor answers", func() bool { return wrote(t, st, batch) })
	if g := st.Generation(); g != 2 {
		t.Fatalf("generation %d", g)
	}
	if h := headOf(t, st, "s"); h.Head.Offset != 2 {
		t.Fatalf("the log is at %d", h.Head.Offset)
	}
}

// wrote sends a batch and reports whether it has been written, now or before.
func wrote(t *testing.T, st *Store, b store.Batch) bool {
	t.Helper()
	res, err := st.Append(t.Context(), b)
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
		return false
	}
	if res.Code != store.OK && res.Code != store.Dup {
		t.Fatalf("Append: %s", res.Code)
	}
	return true
}

// certify makes a certificate of 127.0.0.1 that is its own authority.
func certify(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), pool
}

// TestTLS: a server with a certificate that is trusted is used, another one is
// not, and nothing is sent to it in the clear.
func TestTLS(t *testing.T) {
	cert, key, pool := certify(t)
	port := redisserver.FreePort(t)
	redisserver.Start(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	o, err := ParseURL("rediss://127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(t, o).Submit(t.Context(), offer("s", "q"))
	wantError(t, "a certificate that nobody knows", err, store.ErrUnavailable)
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	submitted(t, open(t, o), offer("s", "q"), store.Started)
}
