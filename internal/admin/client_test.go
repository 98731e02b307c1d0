package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// socketPath returns a path for a Unix socket; such a path must be short.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "admin")
}

// serving runs a server at an address until the returned function is called.
func serving(t *testing.T, f *fake, a Address) (at net.Addr, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- f.Serve(ctx, l) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return l.Addr(), stop
}

func TestClient(t *testing.T) {
	const token = "0123456789abcdef"
	path := socketPath(t)
	for _, a := range []Address{Address("unix:" + path), "127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(string(a), func(t *testing.T) {
			f := newFake(token)
			at, stop := serving(t, f, a)
			if !strings.HasPrefix(string(a), "unix:") {
				a = Address(at.String())
			}
			c := NewClient(a, token)
			var found Sessions
			if err := c.Get(t.Context(), "/api/v1/sessions", &found); err != nil || found.Sessions[0].ID != "c" {
				t.Errorf("%v, %v", found, err)
			}
			var done struct{}
			if err := c.Post(t.Context(), "/api/v1/sessions/c/kick", Kick{Text: "afk"}, &done); err != nil ||
				f.proxy.kicked != "afk" {
				t.Errorf("kicked with %q, %v", f.proxy.kicked, err)
			}
			var refused *StatusError
			err := c.Get(t.Context(), "/api/v1/sessions/d", &done)
			if !errors.As(err, &refused) || refused.Status != 404 || err.Error() != "session d: no such session" {
				t.Errorf("of a session that is not there: %v", err)
			}
			if err := NewClient(a, "").Get(t.Context(), "/livez", &done); !errors.As(err, &refused) || refused.Status != 401 {
				t.Errorf("without the token: %v", err)
			}
			stop()
			want := "ask the proxy at " + string(a) + ": dial "
			if err := c.Get(t.Context(), "/livez", &done); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("after its end: %v, want %s", err, want)
			}
		})
	}
}

// TestListenUnix checks that a socket is for owner and group, and that it replaces only a dead process's socket.
func TestListenUnix(t *testing.T) {
	path := socketPath(t)
	a := Address("unix:" + path)
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = dead.Close()
	alive, err := Listen(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), a); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("beside one that lives: %v", err)
	}
	_ = alive.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), a); err == nil || !strings.Contains(err.Error(), "exists and is not a socket") {
		t.Errorf("in place of a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
}

// TestServeEndsInOrder checks that an answer in progress at the end still arrives.
func TestServeEndsInOrder(t *testing.T) {
	f := newFake("")
	ctx, cancel := context.WithCancel(context.Background())
	path := socketPath(t)
	l, err := Listen(ctx, Address("unix:"+path))
	if err != nil {
		t.Fatal(err)
	}
	f.Drain = cancel // in the middle of an answer
	ended := make(chan error)
	go func() { ended <- f.Serve(ctx, l) }()
	var done struct{}
	if err := NewClient(Address("unix:"+path), "").Post(t.Context(), "/api/v1/drain", nil, &done); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAutoAddress checks that a client finds a server of the same configuration, and that no other user can: the folder
// is for its owner alone, also if it was open before.
func TestAutoAddress(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("auto is a TCP address there")
	}
	folder := socketPath(t)
	for _, given := range []bool{true, false} {
		t.Run(fmt.Sprintf("service manager %v", given), func(t *testing.T) {
			name, mode := "RUNTIME_DIRECTORY", os.FileMode(0o755)
			if !given {
				if os.Geteuid() == 0 {
					t.Skip("root has the system's folder")
				}
				t.Setenv("RUNTIME_DIRECTORY", "")
				name, mode = "XDG_RUNTIME_DIR", 0o700
			}
			t.Setenv(name, folder)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			_, stop := serving(t, newFake(""), Auto)
			var done struct{}
			if err := NewClient(Auto, "").Get(t.Context(), "/livez", &done); err != nil {
				t.Error(err)
			}
			own := filepath.Dir(strings.TrimPrefix(string(Auto.resolve()[0]), "unix:"))
			if info, err := os.Stat(own); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%v, %v; want %v", info.Mode(), err, mode)
			}
			stop()
			// The client asks this address alone: at the others, a Tidegate of this machine may answer.
			err := NewClient(Auto.resolve()[0], "").Get(t.Context(), "/livez", &done)
			if err == nil || !strings.Contains(err.Error(), filepath.Join(own, "admin.sock")) {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// TestClaim checks that the folder of an automatic socket is closed to other users.
func TestClaim(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("auto is a TCP address there")
	}
	t.Setenv("RUNTIME_DIRECTORY", "")
	for _, before := range []os.FileMode{0, 0o777} {
		folder := filepath.Join(t.TempDir(), "a", "b")
		if before != 0 {
			if err := os.MkdirAll(folder, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := claim(folder); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}
