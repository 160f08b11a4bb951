package auth

import (
	"net/http"
	"strings"
)

// BearerToken returns the token of the one Authorization header of a request, or
// nothing. Other schemes, several headers and tokens that are no single word or
// longer than 16 KiB count as none.
func BearerToken(h http.Header) string {
	values := h.Values("Authorization")
	if len(values) != 1 || len(values[0]) > maxToken {
		return ""
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	token = strings.TrimSpace(token)
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return ""
		}
	}
	return token
}
