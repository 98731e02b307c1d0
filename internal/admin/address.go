package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Address is the address of an admin server: Auto, "unix:" and the path of a socket, or ip:port. For a client it
// may also be "https://" and the host of a reverse proxy with TLS.
type Address string

// Auto is the address if the configuration names none: a Unix socket in a folder of the user, which no other
// user may enter. Clients find it by themselves. Windows has it at 127.0.0.1:9470.
const Auto Address = "auto"

// resolve returns the addresses that an address stands for. A server listens at the first; a client tries all.
func (a Address) resolve() []Address {
	if a != Auto {
		return []Address{a}
	}
	return automatic()
}

// split returns the network and address for package net.
func (a Address) split() (network, address string) {
	if path, ok := strings.CutPrefix(string(a), "unix:"); ok {
		return "unix", path
	}
	return "tcp", string(a)
}

// Listen opens the address. Only the owner and group of the process may use a Unix socket. Listen replaces a socket
// that a dead process left behind.
func Listen(ctx context.Context, a Address) (net.Listener, error) {
	own := a.resolve()[0]
	network, address := own.split()
	if network == "tcp" {
		return new(net.ListenConfig).Listen(ctx, network, address)
	}
	if a == Auto {
		if err := claim(filepath.Dir(address)); err != nil {
			return nil, err
		}
	}
	return listenUnix(ctx, address)
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := clear(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: private} // the socket is never open to others, not even before Chmod
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clear removes a socket without a listener.
func clear(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen unix %s: exists and is not a socket", path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("listen unix %s: another process listens there", path)
	}
	return os.Remove(path)
}
