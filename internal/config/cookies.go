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

// Key is 32 bytes that are shared with others: 64 hexadecimal digits, or "file:" and the path of a file with them.
// Validation puts the content in the place of the path.
type Key string

// fileKey begins a key that stands in a file.
const fileKey = "file:"

// Bytes is the key of a checked configuration; zeros if there is none.
func (k Key) Bytes() (key [32]byte) {
	_, _ = hex.Decode(key[:], []byte(k)) // it has been checked
	return key
}

// load reads the key from its file, if it stands in one, and checks it.
func (k Key) load() (Key, error) {
	if path, ok := strings.CutPrefix(string(k), fileKey); ok {
		content, err := os.ReadFile(path)
		if err != nil {
			return k, err
		}
		k = Key(strings.TrimSpace(string(content)))
	}
	b, err := hex.DecodeString(string(k))
	if err == nil && len(b) != len(k.Bytes()) {
		err = fmt.Errorf("%d bytes, not %d", len(b), len(k.Bytes()))
	}
	return k, err
}

// String hides the key.
func (k Key) String() string { return Secret(k).String() }

// secret checks a secret that a cookie mode needs, or does not.
func (v *validator) secret(key string, mode CookieMode, s *Key, needed bool) {
	switch {
	case needed && *s == "":
		v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and a path: cookie_mode = %q needs the secret", fileKey, mode))
	case !needed && *s != "":
		v.warn(key, *s, fmt.Sprintf("nothing: cookie_mode = %q has no use for it", mode))
	case needed:
		loaded, err := s.load()
		if *s = loaded; err != nil {
			v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and the path of a file with them: %v", fileKey, err))
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
