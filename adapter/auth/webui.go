package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// WebUIJWT returns the description of the tokens that the reference front-end
// signs with its secret (chat-run 11.1). Super admins are admin; the profiles of
// everybody else come from the grant and from JWTConfig.Users, since the
// front-end's table of users is not ours.
func WebUIJWT(secret string) JWTConfig {
	return JWTConfig{
		Secrets:   []string{secret},
		Audiences: []string{"hermes-web-ui"},
		Require:   map[string]string{"type": "access"},
		Present:   []string{"sub", "role"},
		UserClaim: "username",
		Admin:     map[string]string{"role": "super_admin"},
	}
}

// WebUISecret finds the secret of the reference front-end: AUTH_JWT_SECRET, else
// AUTH_TOKEN, else the content of tokenFile, if that is not empty. source names
// where it was found, for logs and health. These names are read only for a rule
// that asks for them: the environment never opens a site by itself.
func WebUISecret(getenv func(string) string, tokenFile string) (secret, source string, err error) {
	for _, name := range []string{"AUTH_JWT_SECRET", "AUTH_TOKEN"} {
		if secret := strings.TrimSpace(getenv(name)); secret != "" {
			return secret, name, nil
		}
	}
	if tokenFile == "" {
		return "", "", errors.New("auth: jwt: no secret: set AUTH_JWT_SECRET, or the option secret")
	}
	data, err := os.ReadFile(tokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("auth: jwt: %w", err)
	}
	if secret := strings.TrimSpace(string(data)); secret != "" {
		return secret, "file", nil
	}
	return "", "", errors.New("auth: jwt: no secret: set AUTH_JWT_SECRET, or the option secret; the token file is missing or empty")
}
