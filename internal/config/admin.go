package config

import (
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"strings"

	"tidegate/internal/regular"
)

// Admin is the address at which operators and their programs reach a running Tidegate.
type Admin struct {
	Listen AdminAddress `toml:"listen"`
	Token  Secret       `toml:"token"` // every request must carry it; empty: requests need no token
}

// AdminAddress is ip:port, "unix:" and the path of a socket, or one of the words below.
type AdminAddress string

// Words in place of an address.
const (
	AdminAuto AdminAddress = "auto" // a Unix socket that only this user can reach, where the system has such sockets
	AdminOff  AdminAddress = "off"  // no admin server
)

// Secret is a text that is never shown.
type Secret string

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// hidden stands for a secret in all output.
const hidden = "(hidden)"

// loadSecret returns a secret's text. If it is "file:" and a path, loadSecret reads the file.
func (v *validator) loadSecret(s Secret) (Secret, error) {
	path, ok := strings.CutPrefix(string(s), fileKey)
	if !ok {
		return s, nil
	}
	text, err := regular.ReadFile(v.Path(path))
	return Secret(strings.TrimSpace(string(text))), err
}

const (
	minToken   = 16  // characters, against guessing over a network
	maxToken   = 200 // characters
	socketPath = 100 // bytes that every system allows in the path of a Unix socket
)

func (v *validator) admin() {
	a := v.Admin
	local := true
	if path, ok := strings.CutPrefix(string(a.Listen), "unix:"); ok {
		if path == "" || len(path) > socketPath {
			v.fault("admin.listen", a.Listen, fmt.Sprintf("a path of 1 to %d bytes after unix:", socketPath))
		}
	} else if a.Listen != AdminAuto && a.Listen != AdminOff {
		addr, err := netip.ParseAddrPort(string(a.Listen))
		if err != nil || addr.Port() == 0 {
			v.fault("admin.listen", a.Listen,
				`"auto", ip:port, for example "127.0.0.1:9470", "unix:/run/tidegate/admin.sock" or "off"`)
		}
		local = err != nil || addr.Addr().Unmap().IsLoopback()
	}
	if inline := a.Token != "" && !strings.HasPrefix(string(a.Token), fileKey); inline && openToAll(v.source.name()) {
		v.warn("admin.token", a.Token, "a file that other users of this machine cannot read: chmod o= "+v.source.name())
	}
	token, err := v.loadSecret(a.Token)
	v.Admin.Token = token
	switch {
	case err != nil:
		v.fault("admin.token", a.Token, fmt.Sprintf("a token, or %q and the path of a file with it: %v", fileKey, err))
	case token == "" && !local:
		v.fault("admin.token", nil, fmt.Sprintf("a token of %d characters or more, since admin.listen is not on loopback",
			minToken))
	case token != "" && !isToken(string(token)):
		v.fault("admin.token", a.Token, fmt.Sprintf("%d to %d letters, digits and signs", minToken, maxToken))
	}
}

// openToAll reports whether every user of the machine can read a file. Windows does not tell.
func openToAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// isToken reports whether a text fits into a header and is long enough.
func isToken(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(text) >= minToken && len(text) <= maxToken
}

// LoadAdmin reads only the [admin] table of a configuration file. So commands reach a running proxy while the rest of
// the file is being edited. The error is Faults if the table or the file has faults.
func LoadAdmin(path string) (Admin, error) {
	c, err := loadTable(path, "admin", "Admin", (*validator).admin)
	if err != nil {
		return Admin{}, err
	}
	return c.Admin, nil
}

// loadTable reads only the table with a key, into a field of Config.
func loadTable(path, key, field string, check func(*validator)) (*Config, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	tables, fault := parse(text)
	if fault != nil {
		fault.File = path
		return nil, Faults{*fault}
	}
	c := Default()
	c.places = newIndex(path, text)
	report := newReport(c.places)
	if table, ok := tables[key]; ok {
		decoder{report}.value(key, reflect.ValueOf(c).Elem().FieldByName(field), table)
	}
	v := &validator{Config: c, report: report}
	v.bounded(key, reflect.ValueOf(c).Elem().FieldByName(field))
	check(v)
	_, err = report.result()
	return c, err
}
