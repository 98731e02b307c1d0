package proxy

import (
	"errors"
	"slices"
	"testing"

	"tidegate/internal/record"
)

// Sessions of any number are read ahead in their order. A damaged record costs its session only. A batch that is cut
// off is an error.
func TestReadSessions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, readAhead, readAhead + 1, 5*readAhead - 1} {
		var batches [][]byte
		var want, got []SessionID
		for i := range n {
			if i%100 == 0 {
				batches = append(batches, nil)
			}
			b := &batches[len(batches)-1]
			v := savedSession{Head: record.Head{Kind: sessionKind, Version: savedVersion}, Serial: SessionID(i + 1)}
			saved := record.Append(nil, &v)
			if i == n/2 {
				saved = saved[:len(saved)-1]
			}
			*b = appendPiece(appendPiece(*b, []byte{byte(i)}), saved)
			want = append(want, SessionID(i+1))
		}
		err := readSessions(batches, func(s *readSession) {
			i := len(got)
			if got = append(got, SessionID(i+1)); s.sockets[0] != byte(i) || (s.err != nil) != (i == n/2) {
				t.Errorf("session %d of %d: sockets %v, error %v", i, n, s.sockets, s.err)
			} else if s.err == nil && s.Serial != SessionID(i+1) {
				t.Errorf("session %d of %d has ID %d", i, n, s.Serial)
			}
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d sessions: read %d, error %v", n, len(got), err)
		}
		if n == 0 {
			continue
		}
		last := &batches[len(batches)-1]
		*last = (*last)[:len(*last)-1]
		if err := readSessions(batches, func(*readSession) {}); !errors.Is(err, errCut) {
			t.Errorf("%d sessions, cut off: error %v", n, err)
		}
	}
}
