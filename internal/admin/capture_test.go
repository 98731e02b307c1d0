package admin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"tidegate/internal/capture"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay/recording"
)

func TestCaptureRefuses(t *testing.T) {
	f := newFake("")
	want(t, f.ask("GET", "/api/v1/capture?session=d", ""), http.StatusNotFound, "no such session")
	for query, says := range map[string]string{
		"session=%3f":       `session \"?\": want an ID`,
		"client=example":    `client: \"example\" is neither an address nor a prefix`,
		"client=10.0.0.1/8": "did you mean 10.0.0.0/8?",
		"player=1":          `parameter \"player\": want one of`,
	} {
		want(t, f.ask("GET", "/api/v1/capture?"+query, ""), http.StatusBadRequest, says)
	}
	want(t, newFake("secret").ask("GET", "/api/v1/capture", ""), http.StatusUnauthorized)
}

// TestCapture reads the answer as a file.
func TestCapture(t *testing.T) {
	f := newFake("")
	w := f.ask("GET", "/api/v1/capture?session=c&client=192.0.2.0/24&route=arena&upstream=pool", "")
	asked := recording.CaptureFilter{
		Session:  12,
		Client:   netip.MustParsePrefix("192.0.2.0/24"),
		Route:    "arena",
		Upstream: "pool",
	}
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != capture.MediaType || f.proxy.captured != asked {
		t.Fatalf("%d, %v, for %+v", w.Code, w.Header(), f.proxy.captured)
	}
	reader, err := pcapgo.NewNgReader(w.Body, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	data, _, about, err := reader.ReadPacketDataWithOptions()
	if err != nil || !bytes.HasSuffix(data, []byte("hello")) || about.Comments[0] != "session c" {
		t.Errorf("packet %x, %v, %v", data, about.Comments, err)
	}
	if _, _, err := reader.ReadPacketData(); err != io.EOF {
		t.Errorf("then %v", err)
	}
}

// TestRecording reads a recording as a file, and refuses faulty questions.
func TestRecording(t *testing.T) {
	f := newFake("")
	w := f.ask("GET", "/api/v1/recording?session=c&client=192.0.2.0/24&last=30s", "")
	asked := f.proxy.recorded
	ago := time.Since(asked.Since)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != capture.MediaType || asked.Session != 12 ||
		asked.Client != netip.MustParsePrefix("192.0.2.0/24") || ago < 30*time.Second || ago > time.Minute {
		t.Fatalf("%d, %v, for %+v", w.Code, w.Header(), asked)
	}
	reader, err := pcapgo.NewNgReader(w.Body, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := reader.ReadPacketData(); err != nil || !bytes.HasSuffix(data, []byte("earlier")) {
		t.Errorf("packet %x, %v", data, err)
	}
	want(t, f.ask("GET", "/api/v1/recording?session=d", ""), http.StatusNotFound, "nothing recorded of this")
	for query, says := range map[string]string{
		"last=1": `last \"1\": want a time such as 30s`, "last=-1s": "want a time", "session=%3f": "want an ID",
		"route=arena": `parameter \"route\": want one of`,
	} {
		want(t, f.ask("GET", "/api/v1/recording?"+query, ""), http.StatusBadRequest, says)
	}
	f.proxy.err = captures.ErrNotRecording
	want(t, f.ask("GET", "/api/v1/recording", ""), http.StatusConflict, "set record.last")
}

// TestCaptureThatFails checks that a failed capture does not look complete, over a connection with all its time limits.
func TestCaptureThatFails(t *testing.T) {
	f := newFake("")
	f.proxy.err = errors.New("of the proxy's")
	server := httptest.NewServer(f)
	defer server.Close()
	at := Address(server.Listener.Addr().(*net.TCPAddr).String())
	stream, err := NewClient(at, "").Stream(t.Context(), "/api/v1/capture")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if got, err := capture.Copy(io.Discard, stream, capture.Limits{}); err != io.ErrUnexpectedEOF || got.Datagrams != 1 ||
		got.LeftOut != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := NewClient(at, "").Stream(t.Context(), "/api/v1/capture?session=d"); err == nil ||
		err.Error() != "no such session" {
		t.Errorf("of a session that is not there: %v", err)
	}
}

// FuzzCaptureFilter checks that a query is either rejected or parsed to its meaning.
func FuzzCaptureFilter(f *testing.F) {
	for _, query := range []string{
		"session=c&client=192.0.2.0/24", "route=a&upstream=b", "client=::1", "client=fe80::1%25eth0", "a=b", "%zz",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := &http.Request{URL: &url.URL{RawQuery: query}}
		filter, err := captureFilter(r, captureQuery)
		if err != nil {
			return
		}
		ask := r.URL.Query()
		if filter.Route != ask.Get("route") || filter.Upstream != ask.Get("upstream") ||
			(filter.Session != 0) != (ask.Get("session") != "") || filter.Client.IsValid() != (ask.Get("client") != "") ||
			filter.Client.IsValid() && filter.Client != filter.Client.Masked() {
			t.Errorf("%q: %+v", query, filter)
		}
	})
}
