package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

// Address is the address of an admin server: "unix:" and the path of a socket, or ip:port.
type Address string

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
	network, address := a.split()
	if network == "unix" {
		return listenUnix(ctx, address)
	}
	return new(net.ListenConfig).Listen(ctx, network, address)
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := clear(ctx, path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
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
