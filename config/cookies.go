package config

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// CookieMode is who gives a RakNet client the cookie by which it proves its address, and who checks it.
type CookieMode string

// Cookie modes. An upstream has all but the first.
const (
	CookiePrivate      CookieMode = "private"       // Tidegate, in a form of its own
	CookieActive       CookieMode = "active"        // the server itself
	CookieOffloaded    CookieMode = "offloaded"     // who stands in front; the server looks at their age
	CookieOffloadedPSK CookieMode = "offloaded_psk" // who stands in front, by a secret that the server knows
)

func (CookieMode) choices() []string {
	return words(CookiePrivate, CookieActive, CookieOffloaded, CookieOffloadedPSK)
}

// Secret is 32 bytes that are shared with others: 64 hexadecimal digits, or "file:" and the path of a file with them.
// Validation puts the content in the place of the path.
type Secret string

// fileSecret begins a secret that stands in a file.
const fileSecret = "file:"

// Bytes is the secret of a checked configuration; zeros if there is none.
func (s Secret) Bytes() (secret [32]byte) {
	_, _ = hex.Decode(secret[:], []byte(s)) // it has been checked
	return secret
}

// load reads the secret from its file, if it stands in one, and checks it.
func (s Secret) load() (Secret, error) {
	if path, ok := strings.CutPrefix(string(s), fileSecret); ok {
		content, err := os.ReadFile(path)
		if err != nil {
			return s, err
		}
		s = Secret(strings.TrimSpace(string(content)))
	}
	b, err := hex.DecodeString(string(s))
	if err == nil && len(b) != len(s.Bytes()) {
		err = fmt.Errorf("%d bytes, not %d", len(b), len(s.Bytes()))
	}
	return s, err
}

// hidden stands in a fault for a secret.
const hidden = "(hidden)"

// secret checks a secret that a cookie mode needs, or does not.
func (v *validator) secret(key string, mode CookieMode, s *Secret, needed bool) {
	switch {
	case needed && *s == "":
		v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and a path: cookie_mode = %q needs the secret", fileSecret, mode))
	case !needed && *s != "":
		v.warn(key, hidden, fmt.Sprintf("nothing: cookie_mode = %q has no use for it", mode))
	case needed:
		loaded, err := s.load()
		if *s = loaded; err != nil {
			v.fault(key, hidden, fmt.Sprintf("64 hexadecimal digits, or %q and the path of a file with them: %v", fileSecret, err))
		}
	}
}

// listenerCookies checks how players prove their addresses.
func (v *validator) listenerCookies(table string, o *RakNet) {
	needed := o.CookieMode == CookieActive || o.CookieMode == CookieOffloadedPSK
	v.secret(child(table, "cookie_secret"), o.CookieMode, &o.CookieSecret, needed)
	if !o.Cookies && o.CookieMode != CookiePrivate {
		v.fault(child(table, "cookies"), o.Cookies, fmt.Sprintf("true: cookie_mode = %q", o.CookieMode))
	}
}

// upstreamCookies checks what Tidegate proves to a server.
func (v *validator) upstreamCookies(path string, u *Upstream) {
	v.secret(child(path, "cookie_secret"), u.CookieMode, &u.CookieSecret, u.CookieMode == CookieOffloadedPSK)
	switch {
	case u.CookieMode == CookiePrivate:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: the server gives its own cookies", CookieActive))
	case u.CookieMode != CookieActive && !v.known[u.Protocol].Pings:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: %s has no cookies", CookieActive, u.Protocol))
	}
}
