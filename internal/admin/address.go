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

// Address is where an admin server is found: "unix:" and the path of a socket, or ip:port.
type Address string

// split is the network and address as package net has them.
func (a Address) split() (network, address string) {
	if path, ok := strings.CutPrefix(string(a), "unix:"); ok {
		return "unix", path
	}
	return "tcp", string(a)
}

// Listen opens the address. Of a Unix socket only the owner and group of the process may use it; one that a process left
// behind which has died is replaced.
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

// clear removes a socket on which nobody listens.
func clear(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen unix %s: there is something else than a socket", path)
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
