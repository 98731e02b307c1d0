package config

import (
	"encoding/hex"
	"fmt"
	"strings"

	"tidegate/codec/raknet"
	"tidegate/internal/regular"
)

// CookieMode says which side makes the RakNet cookies that prove addresses, and which side checks them.
type CookieMode = raknet.CookieMode

// fileKey begins the path of a file with a key.
const fileKey = "file:"

// loadKey returns a checked key. If it is "file:" and a path, loadKey reads the file.
func (v *validator) loadKey(k Key) (Key, error) {
	if path, ok := strings.CutPrefix(string(k), fileKey); ok {
		content, err := regular.ReadFile(v.Path(path))
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

// secret checks a secret that another key requires or does not use.
func (v *validator) secret(key, because string, s *Key, needed bool) {
	switch {
	case needed && *s == "":
		v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and a path: %s needs the secret", fileKey, because))
	case !needed && *s != "":
		v.warn(key, *s, "no value: "+because+" does not use it")
	case needed:
		loaded, err := v.loadKey(*s)
		if *s = loaded; err != nil {
			v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and the path of a file with them: %v", fileKey, err))
		}
	}
}

// upstreamCookies checks the cookies towards an upstream's servers.
func (v *validator) upstreamCookies(path string, u *Upstream) {
	because := fmt.Sprintf("cookie_mode = %q", u.CookieMode)
	v.secret(child(path, "cookie_secret"), because, &u.CookieSecret, u.CookieMode == raknet.CookiesOffloadedPSK)
	switch {
	case u.CookieMode == raknet.CookiesPrivate:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: the server gives its own cookies",
			raknet.CookiesActive))
	case u.CookieMode != raknet.CookiesActive && !v.known[u.Protocol].Pings:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: %s has no cookies", raknet.CookiesActive,
			u.Protocol))
	}
}
