package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/cidr"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// Bans is the JSON of the bans in force.
type Bans struct {
	Bans  []WhyBan `json:"bans"`  // the youngest first
	Total int      `json:"total"` // that the search found; the list has at most the parameter limit
}

// errNoBan says that a network has no ban of its own.
var errNoBan = errors.New("the network is not banned")

func (s *Server) listBans(r *http.Request) (Bans, error) {
	ask := r.URL.Query()
	limit, err := number(ask.Get("limit"), defaultPage, 1, maxPage)
	if err != nil {
		return Bans{}, err
	}
	search, now := strings.ToLower(ask.Get("search")), time.Now()
	list := Bans{Bans: []WhyBan{}}
	for b := range s.Bans.Active(now) {
		text := strings.ToLower(b.Prefix.String() + " " + b.Reason + " " + b.Author)
		if strings.Contains(text, search) {
			list.Bans = append(list.Bans, WhyBanOf(b))
		}
	}
	slices.SortFunc(list.Bans, func(a, b WhyBan) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Prefix, b.Prefix))
	})
	list.Total = len(list.Bans)
	list.Bans = list.Bans[:min(limit, list.Total)]
	return list, nil
}

// number parses a parameter. An empty text is the default.
func number(text string, missing, least, most int) (int, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest{fmt.Errorf("number %q: want %d to %d", text, least, most)}
	}
	return n, nil
}

// Ban is the request body of a ban.
type Ban struct {
	Prefix  string  `json:"prefix"`            // a network or an address
	Seconds float64 `json:"seconds,omitempty"` // duration; absent: permanent
	Reason  string  `json:"reason,omitempty"`
	Author  string  `json:"author,omitempty"` // absent: "operator"
}

// Bounds of a ban.
const (
	maxBanText    = 1 << 10 // bytes, as in the ban file
	maxBanSeconds = 100 * 365 * 24 * 3600
)

func (s *Server) addBan(r *http.Request, b Ban) (WhyBan, error) {
	network, err := cidr.Parse(b.Prefix)
	switch {
	case err != nil:
		return WhyBan{}, badRequest{fmt.Errorf("prefix: %w", err)}
	case len(b.Reason) > maxBanText || len(b.Author) > maxBanText:
		return WhyBan{}, badRequest{fmt.Errorf("reason and author: want at most %d bytes", maxBanText)}
	case b.Seconds < 0 || b.Seconds > maxBanSeconds:
		return WhyBan{}, badRequest{fmt.Errorf("seconds %v: want 0 to %.0f", b.Seconds, float64(maxBanSeconds))}
	case b.Author == ratelimit.Automatic:
		return WhyBan{}, badRequest{fmt.Errorf("author %q: want another name", b.Author)}
	}
	ban := ratelimit.Ban{
		Prefix: network, Reason: b.Reason, Author: cmp.Or(b.Author, "operator"),
		Since: time.Now().Truncate(time.Second).UTC(),
	}
	if b.Seconds > 0 {
		ban.Until = ban.Since.Add(time.Duration(b.Seconds * float64(time.Second)))
	}
	s.Bans.Add(ban)
	s.action(r).Stringer("prefix", network).Str("author", ban.Author).Str("reason", ban.Reason).
		Time("until", ban.Until).Msg("banned by an operator")
	return WhyBanOf(&ban), nil
}

// Unban is the request body of the end of a ban.
type Unban struct {
	Prefix string `json:"prefix"`
}

func (s *Server) removeBan(r *http.Request, b Unban) (nothing, error) {
	network, err := cidr.Parse(b.Prefix)
	if err != nil {
		return nothing{}, badRequest{fmt.Errorf("prefix: %w", err)}
	}
	if !s.Bans.Remove(network) {
		return nothing{}, fmt.Errorf("%s: %w", network, errNoBan)
	}
	s.action(r).Stringer("prefix", network).Msg("ban removed by an operator")
	return nothing{}, nil
}

// syncBans puts the changes of the ban file into force before it returns. Commands ask for it after they have changed
// the file.
func (s *Server) syncBans(*http.Request, nothing) (nothing, error) { return nothing{}, s.SyncBans() }

// Refused is the JSON of the sources whose datagrams were dropped last.
type Refused struct {
	Sources []RefusedSource `json:"sources"` // most drops first
}

// RefusedSource is an address with its last drops.
type RefusedSource struct {
	Address string    `json:"address"`
	Times   uint64    `json:"times"` // of the drops below
	Drops   []WhyDrop `json:"drops"` // the last first
}

// maxRefused bounds the sources of an answer.
const maxRefused = 100

func (s *Server) refused(r *http.Request) (Refused, error) {
	q := &relay.ListDrops{Sources: maxRefused}
	if err := s.Proxy.Ask(r.Context(), q); err != nil {
		return Refused{}, err
	}
	drops := q.Drops
	list, last := Refused{[]RefusedSource{}}, netip.Addr{}
	for i := range drops {
		from := drops[i].From.Addr()
		if i == 0 || from != last {
			list.Sources = append(list.Sources, RefusedSource{Address: from.Unmap().String()})
			last = from
		}
		source := &list.Sources[len(list.Sources)-1]
		source.Times += drops[i].Times
		source.Drops = append(source.Drops, dropOf(&drops[i]))
	}
	return list, nil
}
