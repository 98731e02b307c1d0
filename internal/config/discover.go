package config

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Discover is a source of further servers. Exactly one of Host, Service and File is set.
type Discover struct {
	Host    string // DNS name with addresses
	Port    uint16 // of the servers at Host
	Service string // DNS name with SRV records
	File    string // path of a list
}

// discoverFile begins a Discover with a file.
const discoverFile = "file:"

var errDiscover = errors.New("no place to discover servers at")

// UnmarshalText reads what String writes.
func (d *Discover) UnmarshalText(text []byte) error {
	*d = Discover{}
	s := string(text)
	if path, ok := strings.CutPrefix(s, discoverFile); ok && path != "" {
		d.File = path
		return nil
	}
	if labels := strings.Split(s, "."); strings.HasPrefix(s, "_") {
		if len(labels) < 3 || !strings.HasPrefix(labels[1], "_") || !isHost(s) {
			return errDiscover
		}
		d.Service = s
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || !isHost(host) || net.ParseIP(host) != nil {
		return errDiscover
	}
	d.Host, d.Port = host, uint16(n)
	return nil
}

// String returns the text in the file.
func (d Discover) String() string {
	switch {
	case d.File != "":
		return discoverFile + d.File
	case d.Service != "":
		return d.Service
	case d.Host != "":
		return net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port)))
	}
	return ""
}

// isHost reports whether a text can be a DNS name.
func isHost(text string) bool {
	text = strings.TrimSuffix(text, ".")
	for label := range strings.SplitSeq(text, ".") {
		if len(label) == 0 || len(label) > 63 || !isBare(label) {
			return false
		}
	}
	return len(text) <= 253
}
