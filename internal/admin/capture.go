package admin

import (
	"fmt"
	"net/http"

	"tidegate/internal/capture"
	"tidegate/internal/cidr"
	"tidegate/proxy"
)

// captureQuery are the parameters that choose what a capture is of.
var captureQuery = []string{"session", "client", "route", "upstream"}

// capture answers with a pcapng file that grows until the asker goes, the proxy ends, or the session that was asked for.
func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	filter, err := captureFilter(r)
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	of := r.URL.Query().Encode()
	var file *capture.Writer
	err = s.Proxy.Capture(r.Context(), filter, func(c *proxy.Catch) (err error) {
		limitTime(w, writeTimeout) // anew: a capture may last, but its reader must not pause for long
		if file == nil {
			w.Header().Set("Content-Type", capture.MediaType)
			s.Log.Info().Str("of", of).Msg("capture begun by an operator")
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
	s.Log.Info().Str("of", of).Uint64("datagrams", written).Uint64("left_out", leftOut).AnErr("error", err).Msg("capture ended")
	if err != nil {
		panic(http.ErrAbortHandler) // so that nobody takes the file for whole
	}
}

// captureFilter reads a request's parameters.
func captureFilter(r *http.Request) (f proxy.CaptureFilter, err error) {
	if err := checkQuery(r, captureQuery); err != nil {
		return f, err
	}
	ask := r.URL.Query()
	f.Route, f.Upstream = ask.Get("route"), ask.Get("upstream")
	if text := ask.Get("session"); text != "" {
		if f.Session, err = proxy.ParseSessionID(text); err != nil {
			return f, misuse{err}
		}
	}
	if text := ask.Get("client"); text != "" {
		if f.Client, err = cidr.Parse(text); err != nil {
			return f, misuse{fmt.Errorf("client: %w", err)}
		}
	}
	return f, nil
}
