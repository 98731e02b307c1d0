package proxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// TestOperatorsSeeAllLoops lists, counts and kicks the players of two loops.
func TestOperatorsSeeAllLoops(t *testing.T) {
	server, _ := gorkServer(t)
	r := start(t, netio.Auto, 2, bedrock(), bedrock(), server)
	players := make(map[string]*gork.Conn)
	for range 6 {
		conn, err := gork.DialTimeout(r.addr.String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		players[conn.LocalAddr().String()] = conn
	}
	established := func(n uint64) bool {
		f, err := r.server.Figures(t.Context())
		return err == nil && f.Sessions[0].Established == n
	}
	await.Until(t, "all established", func() bool { return established(6) })
	f, err := r.server.Figures(t.Context())
	if err != nil || len(f.Sockets) != 2 || len(f.Sessions) != 1 || f.Sessions[0].Open() != 6 ||
		f.Counters.Clients.In.Messages < 6 {
		t.Errorf("%v: %+v", err, f)
	}
	all, err := r.server.List(t.Context(), &relay.ListSessions{Limit: 100})
	if err != nil || len(all) != 6 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	if !slices.IsSortedFunc(all, func(a, b relay.Session) int { return int(a.ID) - int(b.ID) }) {
		t.Error("the list is not by ID")
	}
	if page, err := r.server.List(t.Context(), &relay.ListSessions{After: all[1].ID, Limit: 3}); err != nil ||
		len(page) != 3 || page[0].ID != all[2].ID {
		t.Errorf("the page after two is %v, %v", page, err)
	}
	checkTop(t, r, all)
	for _, s := range all {
		shown := &relay.ShowSession{ID: s.ID}
		if err := r.server.Ask(t.Context(), shown); err != nil || shown.Session.Client != s.Client {
			t.Errorf("session %v is %v's, %v", s.ID, shown.Session.Client, err)
		}
		if err := r.server.Ask(t.Context(), &relay.KickSession{ID: s.ID, Text: "bye"}); err != nil {
			t.Error(err)
		}
		select {
		case <-players[s.Client.String()].Context().Done():
		case <-time.After(patience):
			t.Errorf("the player of session %v was not told", s.ID)
		}
	}
	await.Until(t, "rid of all sessions", func() bool {
		f, err := r.server.Figures(t.Context())
		return err == nil && f.Sessions[0].Open() == 0
	})
	if f, _ := r.server.Figures(t.Context()); f.Sessions[0].Ended[2][codec.Kicked] != 6 {
		t.Errorf("ended %v", f.Sessions[0].Ended)
	}
	r.end(t)
	if _, err := r.server.Figures(t.Context()); !errors.Is(err, proxy.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// TestLoopsThatDoNotAnswer asserts that a request to a loop that does not run ends with its context.
func TestLoopsThatDoNotAnswer(t *testing.T) {
	server, err := proxy.Listen(&relay.Settings{}, proxy.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // more than a mailbox holds
		if _, err := server.Figures(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("asked in vain: %v", err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := server.Run(ended); err != nil {
		t.Error(err)
	}
}

// checkTop sorts and searches the sessions of two loops.
func checkTop(t *testing.T, r *running, all []relay.Session) {
	t.Helper()
	top := func(q relay.RankSessions) *relay.RankSessions {
		if err := r.server.Ask(t.Context(), &q); err != nil {
			t.Fatal(err)
		}
		return &q
	}
	page := top(relay.RankSessions{Sort: relay.ByClient, Offset: 1, Limit: 3})
	clients := make([]string, len(page.Sessions))
	for i := range page.Sessions {
		clients[i] = page.Sessions[i].Client.String()
	}
	if page.Total != len(all) || len(clients) != 3 || !slices.IsSorted(clients) {
		t.Errorf("a page by client: %d of %d, %v", len(clients), page.Total, clients)
	}
	// The first sessions of both loops may be equally old.
	if oldest := top(relay.RankSessions{Descending: true, Limit: 1}); oldest.Sessions[0].ID > all[1].ID {
		t.Errorf("the oldest is %v, want %v", oldest.Sessions[0].ID, all[0].ID)
	}
	search := strings.ToUpper(all[2].Client.String())
	if found := top(relay.RankSessions{Search: search, Limit: 10}); found.Total != 1 || found.Sessions[0].ID != all[2].ID {
		t.Errorf("%s finds %d", search, found.Total)
	}
	if past := top(relay.RankSessions{Offset: 100, Limit: 10}); past.Total != len(all) || len(past.Sessions) != 0 {
		t.Errorf("beyond the end: %+v", past)
	}
	watch := &relay.WatchSession{ID: all[3].ID}
	if err := r.server.Ask(t.Context(), watch); err != nil || watch.Watched.Session.Client != all[3].Client {
		t.Errorf("watched %+v, %v", watch.Watched, err)
	}
	if err := r.server.Ask(t.Context(), &relay.UnwatchSession{ID: all[3].ID}); err != nil {
		t.Error(err)
	}
	if err := r.server.Ask(t.Context(), &relay.WatchSession{ID: 999_999}); !errors.Is(err, relay.ErrNoSession) {
		t.Errorf("a session that never was: %v", err)
	}
	if err := r.server.Ask(t.Context(), &relay.ListDrops{Sources: 10}); err != nil {
		t.Error(err)
	}
}
