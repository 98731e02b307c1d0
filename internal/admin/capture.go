package admin

import (
	"fmt"
	"net/http"

	"tidegate/internal/capture"
	"tidegate/internal/cidr"
	"tidegate/proxy"
)

// captureQuery are the parameters that filter a capture.
var captureQuery = []string{"session", "client", "route", "upstream"}

// capture answers with a pcapng file that grows until the client disconnects, the proxy ends, or the requested session
// ends.
func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	filter, err := captureFilter(r)
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	of := r.URL.Query().Encode()
	var file *capture.Writer
	err = s.Proxy.Capture(r.Context(), filter, func(c *proxy.Catch) (err error) {
		limitTime(w, writeTimeout) // extended each time: a capture may last long, but its reader must keep reading
		if file == nil {
			w.Header().Set("Content-Type", capture.MediaType)
			s.Log.Info().Str("of", of).Msg("capture started by an operator")
			if file, err = capture.NewWriter(w, s.Version, of); err != nil {
				return err
			}
		}
		if err = file.Write(c); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	})
	if file == nil {
		if err != nil {
			refuse(w, statusOf(err), err.Error())
		}
		return
	}
	written, leftOut := file.Totals()
	s.Log.Info().Str("of", of).Uint64("datagrams", written).Uint64("left_out", leftOut).AnErr("error", err).
		Msg("capture ended")
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take the file for complete
	}
}

// captureFilter parses a request's parameters.
func captureFilter(r *http.Request) (f proxy.CaptureFilter, err error) {
	if err := checkQuery(r, captureQuery); err != nil {
		return f, err
	}
	ask := r.URL.Query()
	f.Route, f.Upstream = ask.Get("route"), ask.Get("upstream")
	if text := ask.Get("session"); text != "" {
		if f.Session, err = proxy.ParseSessionID(text); err != nil {
			return f, badRequest{err}
		}
	}
	if text := ask.Get("client"); text != "" {
		if f.Client, err = cidr.Parse(text); err != nil {
			return f, badRequest{fmt.Errorf("client: %w", err)}
		}
	}
	return f, nil
}
