package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// minSecret is the length under which an HMAC secret gets a warning, in bytes: the
// output of the hash, as RFC 7518 3.2 asks for.
const minSecret = 32

func loadKeys(cfg JWTConfig) (keys []jwtKey, warnings []string, err error) {
	for _, secret := range cfg.Secrets {
		if secret == "" {
			return nil, nil, errors.New("auth: jwt: secret is empty")
		}
		if len(secret) < minSecret {
			warnings = append(warnings, fmt.Sprintf("auth: jwt: a secret is shorter than %d bytes and can be guessed from a token", minSecret))
		}
		digest := sha256.Sum256([]byte(secret))
		keys = append(keys, jwtKey{
			key: []byte(secret), algorithms: []string{"HS256", "HS384", "HS512"}, rule: string(digest[:]),
		})
	}
	for _, file := range cfg.PublicKeys {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("auth: jwt: public_key: %w", err)
		}
		found, err := parsePublicKeys(data)
		if err != nil {
			return nil, nil, fmt.Errorf("auth: jwt: public_key %s: %w", file, err)
		}
		keys = append(keys, found...)
	}
	return keys, warnings, nil
}

// parsePublicKeys reads every block of a PEM file.
func parsePublicKeys(data []byte) ([]jwtKey, error) {
	var keys []jwtKey
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		key, err := parsePublicKey(block)
		if err != nil {
			return nil, err
		}
		algorithms, err := algorithmsFor(key)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256(der)
		keys = append(keys, jwtKey{key: key, algorithms: algorithms, rule: string(digest[:])})
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no PEM public key or certificate")
	}
	return keys, nil
}

func parsePublicKey(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	default:
		return nil, fmt.Errorf("PEM block %q is not a public key", block.Type)
	}
}

// algorithmsFor: a public key must never verify an HMAC, whose secret would then
// be known to everybody, and an elliptic curve has one algorithm (RFC 7518 3.4).
func algorithmsFor(key crypto.PublicKey) ([]string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return []string{"ES256"}, nil
		case 384:
			return []string{"ES384"}, nil
		case 521:
			return []string{"ES512"}, nil
		}
	}
	return nil, fmt.Errorf("a key of type %T does not fit RS*, PS*, ES* or EdDSA", key)
}
