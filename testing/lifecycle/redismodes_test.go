//go:build unix

package lifecycle

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// Every way to a Redis that the words can name leads to one.
func TestRedisModes(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	for name, words := range map[string]func(t *testing.T) string{
		"cluster": func(t *testing.T) string {
			nodes := redisserver.StartCluster(t, 3)
			return fmt.Sprintf("redis://%s redis://%s {\n mode cluster\n }", nodes[0].Addr, nodes[2].Addr)
		},
		"sentinel": func(t *testing.T) string {
			master := redisserver.Start(t)
			sentinel := redisserver.StartSentinel(t, "mymaster", master)
			return fmt.Sprintf("redis://%s/2 {\n master mymaster\n }", sentinel.Addr)
		},
		"unix socket": func(t *testing.T) string {
			dir, err := os.MkdirTemp("", "redis") // the test's own is too long for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			redisserver.Start(t, "--unixsocket", dir+"/s")
			return "unix://" + dir + "/s?db=1"
		},
		"TLS": func(t *testing.T) string {
			files := makeCertificates(t)
			port := freePort(t)
			redisserver.Start(t, "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes",
				"--tls-ca-cert-file", files+"/ca.pem", "--tls-cert-file", files+"/server.pem", "--tls-key-file", files+"/server.key")
			return strings.NewReplacer("{FILES}", files, "{TLS}", strconv.Itoa(port)).Replace(`rediss://127.0.0.1:{TLS} {
				tls_ca {FILES}/ca.pem
				tls_client_auth {FILES}/client.pem {FILES}/client.key
				tls_server_name redis.example.com
			}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis := words(t)
			s := node(t, withRedis(site(gateway.URL, "", users(aliceRule), ""), redis))
			c := chat.Dial(t, s.url(), aliceToken)
			c.Run("s1", "q1", "hello")
			completed(t, c)
			s.terminate()
			if strings.Contains(s.log(), `"level":"error"`) {
				t.Error("errors in the log")
			}
		})
	}
}

// makeCertificates writes those of an authority, and of a server and a client that
// it vouches for.
func makeCertificates(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey := makeKey(t)
	writeCertificate(t, folder+"/ca", authority, authority, authorityKey, authorityKey)
	for i, name := range []string{"server", "client"} {
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"redis.example.com"},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		writeCertificate(t, filepath.Join(folder, name), cert, authority, makeKey(t), authorityKey)
	}
	return folder
}

func makeKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeCertificate(t *testing.T, file string, cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		file + ".pem": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
