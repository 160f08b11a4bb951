package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// Headers of a forwarded request beside those of the request itself.
const (
	headerProof    = "Peer-Proof"
	headerMethod   = "Peer-Method"
	headerIdentity = "Peer-Identity"
)

// proof is what a request shows to the node of that name and certificate.
func proof(secret []byte, node, fingerprint string) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("hermes-edge peer\x00" + node + "\x00" + fingerprint)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func sameProof(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
