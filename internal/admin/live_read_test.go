package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// mute answers with one event of the live stream, and says nothing more.
type mute struct{}

func (mute) RoundTrip(r *http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	context.AfterFunc(r.Context(), func() { write.CloseWithError(r.Context().Err()) })
	go func() {
		fmt.Fprintf(write, "event: live\ndata: {\"sessions\":%d}\n\n", fewSessions+1)
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: read, Request: r}, nil
}

// TestWatchEndsAtSilence has a proxy whose stream stops without an end, as after a lost network.
func TestWatchEndsAtSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient("127.0.0.1:1", "")
		c.http.Transport = mute{}
		begun, heard := time.Now(), 0
		err := c.Watch(t.Context(), func(*Live) error { heard++; return nil })
		if took := time.Since(begun); !errors.Is(err, context.Canceled) || heard != 1 || took != silence {
			t.Errorf("%d events, %v after %v", heard, err, took)
		}
	})
}
