package config

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"tidegate/codec/raknet"
)

// CookieMode is who gives a RakNet client the cookie by which it proves its address, and who checks it.
type CookieMode = raknet.CookieMode

// fileKey begins a key that stands in a file.
const fileKey = "file:"

// loadKey reads a key from its file, if it stands in one, and checks it.
func loadKey(k Key) (Key, error) {
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

// secret checks a secret that is needed or not because of another key.
func (v *validator) secret(key, because string, s *Key, needed bool) {
	switch {
	case needed && *s == "":
		v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and a path: %s needs the secret", fileKey, because))
	case !needed && *s != "":
		v.warn(key, *s, "nothing: "+because+" has no use for it")
	case needed:
		loaded, err := loadKey(*s)
		if *s = loaded; err != nil {
			v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and the path of a file with them: %v", fileKey, err))
		}
	}
}

// upstreamCookies checks what Tidegate proves to a server.
func (v *validator) upstreamCookies(path string, u *Upstream) {
	because := fmt.Sprintf("cookie_mode = %q", u.CookieMode)
	v.secret(child(path, "cookie_secret"), because, &u.CookieSecret, u.CookieMode == raknet.CookiesOffloadedPSK)
	switch {
	case u.CookieMode == raknet.CookiesPrivate:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: the server gives its own cookies", raknet.CookiesActive))
	case u.CookieMode != raknet.CookiesActive && !v.known[u.Protocol].Pings:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: %s has no cookies", raknet.CookiesActive, u.Protocol))
	}
}
