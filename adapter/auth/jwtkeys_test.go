package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func writePEM(t *testing.T, blocks ...*pem.Block) string {
	t.Helper()
	var data []byte
	for _, b := range blocks {
		data = append(data, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func publicBlock(t *testing.T, key crypto.PublicKey) *pem.Block {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &pem.Block{Type: "PUBLIC KEY", Bytes: der}
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestJWTKeys(t *testing.T) {
	r, p256, p384, p521 := rsaKey(t), ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384()), ecKey(t, elliptic.P521())
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "t"}},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, &p384.PublicKey, p384)
	if err != nil {
		t.Fatal(err)
	}
	j := newJWT(t, JWTConfig{
		Secrets: []string{jwtSecret, jwtSecret + "-next"},
		PublicKeys: []string{
			writePEM(t, &pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&r.PublicKey)}),
			writePEM(t, publicBlock(t, &p256.PublicKey), &pem.Block{Type: "CERTIFICATE", Bytes: cert}),
			writePEM(t, publicBlock(t, &p521.PublicKey), publicBlock(t, edPublic)),
		},
	})
	for _, tt := range []struct {
		method jwt.SigningMethod
		key    any
	}{
		{jwt.SigningMethodHS256, []byte(jwtSecret)}, {jwt.SigningMethodHS384, []byte(jwtSecret)},
		{jwt.SigningMethodHS512, []byte(jwtSecret + "-next")},
		{jwt.SigningMethodRS256, r}, {jwt.SigningMethodRS384, r}, {jwt.SigningMethodRS512, r}, {jwt.SigningMethodPS256, r},
		{jwt.SigningMethodES256, p256}, {jwt.SigningMethodES384, p384}, {jwt.SigningMethodES512, p521},
		{jwt.SigningMethodEdDSA, ed},
	} {
		admitted(t, j, Credentials{Token: sign(t, tt.method, tt.key, nil)})
	}
	for name, token := range map[string]string{
		"other secret":  sign(t, jwt.SigningMethodHS256, []byte(jwtSecret+"x"), nil),
		"other RSA key": sign(t, jwt.SigningMethodRS256, rsaKey(t), nil),
		"other EC key":  sign(t, jwt.SigningMethodES256, ecKey(t, elliptic.P256()), nil),
	} {
		t.Run(name, func(t *testing.T) { refused(t, j, Credentials{Token: token}, ErrFailed) })
	}
}

// A public key is known to everybody: used as an HMAC secret it must admit nobody.
// "none" admits nobody in any spelling.
func TestJWTAlgorithmConfusion(t *testing.T) {
	r := rsaKey(t)
	file := writePEM(t, publicBlock(t, &r.PublicKey))
	pemText, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	public := newJWT(t, JWTConfig{PublicKeys: []string{file}})
	secret := newJWT(t, JWTConfig{Secrets: []string{jwtSecret}})
	both := newJWT(t, JWTConfig{Secrets: []string{jwtSecret}, PublicKeys: []string{file}})
	tokens := map[string]string{
		"HMAC with the PEM text": sign(t, jwt.SigningMethodHS256, pemText, nil),
		"HMAC with the DER":      sign(t, jwt.SigningMethodHS256, publicBlock(t, &r.PublicKey).Bytes, nil),
		"HMAC with the PKCS1":    sign(t, jwt.SigningMethodHS512, x509.MarshalPKCS1PublicKey(&r.PublicKey), nil),
		"HMAC with the modulus":  sign(t, jwt.SigningMethodHS256, r.PublicKey.N.Bytes(), nil),
		"none":                   sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
	}
	parts := strings.Split(hs256(t, nil), ".")
	for _, alg := range []any{"none", "None", "NONE", "", nil, 5, "RS256", "hs256", "HS257"} {
		header, err := json.Marshal(map[string]any{"typ": "JWT", "alg": alg})
		if err != nil {
			t.Fatal(err)
		}
		head := base64.RawURLEncoding.EncodeToString(header)
		tokens["alg "+string(header)] = head + "." + parts[1] + "." + parts[2]
		tokens["alg without signature "+string(header)] = head + "." + parts[1] + "."
	}
	for name, token := range tokens {
		for _, a := range []Authenticator{public, secret, both} {
			t.Run(name, func(t *testing.T) { refused(t, a, Credentials{Token: token}, ErrFailed) })
		}
	}
}
