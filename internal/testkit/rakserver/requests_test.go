package rakserver

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandertv/go-raknet"
)

// TestRequestsAreComplete lets go-raknet make its requests itself. They are ours, and no more.
func TestRequestsAreComplete(t *testing.T) {
	ours := maps.Clone(requests)
	clear(requests)
	synctest.Test(t, func(t *testing.T) {
		if _, err := (raknet.Dialer{UpstreamDialer: nowhere{}}).DialTimeout("192.0.2.1:1", time.Minute); err == nil {
			t.Error("a dial to nowhere succeeds")
		}
	})
	if !maps.EqualFunc(requests, ours, bytes.Equal) {
		t.Errorf("go-raknet has the requests %x, want %x", requests, ours)
		maps.Copy(requests, ours)
	}
}

// nowhere is a peer that takes all datagrams and sends none.
type nowhere struct{ net.Conn }

func (n nowhere) DialContext(context.Context, string, string) (net.Conn, error) { return n, nil }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// Read fails once a client has sent each request three times, each half a second after the one before.
func (nowhere) Read([]byte) (int, error) {
	time.Sleep(10 * time.Second)
	return 0, errors.New("nowhere")
}

func (nowhere) RemoteAddr() net.Addr          { return new(net.UDPAddr) }
func (nowhere) SetDeadline(t time.Time) error { return nil }
func (nowhere) Close() error                  { return nil }
