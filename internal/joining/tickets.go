package joining

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/source"
)

// Errors of Tickets.
var (
	ErrFull     = errors.New("too many joins wait for their players")
	errRecord   = errors.New("its record lacks an address or a name")
	errNames    = errors.New("another join has its names")
	ErrNetwork  = errors.New("too many joins of one network wait for their players")
	ErrConflict = errors.New("a session of these ICE names lives")
)

// Limits bound a table of tickets.
type Limits struct {
	Unfinished int // joins without their players, overall
	Network    int // of them, joins of one source network
	Sessions   int // joins whose player has come
	// Patience is how long an answered join waits for its player.
	Patience time.Duration
}

// DefaultLimits bound the memory of strangers to about 1 MiB.
var DefaultLimits = Limits{
	Unfinished: 256, Network: 32, Sessions: 10_000,
	Patience: 30 * time.Second,
}

// Names are what both ends of a join call themselves, and where its server waits for datagrams.
type Names struct {
	ServerUfrag, ServerPassword string
	ClientUfrag                 string
	Target                      netip.AddrPort
}

// Way is from a route to a server. Many joins share it.
type Way struct {
	Route  string
	Server netip.AddrPort // that was asked
	target netip.Addr     // of Names
}

// Ticket is a join. A busy edge has many, so their size counts. The exported fields do not change once Answer has
// returned.
type Ticket struct {
	*Names // until Answer, which keeps them for Told
	*Way
	Client netip.Addr      // that asked over HTTP; its datagrams may come from another address
	Peer   *nethernet.Peer // the client, if this process is its server; else nil

	text                      string        // server's ufrag, colon, client's, server's password, ID; first only the ID
	ufrag, username, password uint16        // where these end in text
	port                      uint16        // of Target
	asked                     time.Duration // since the table's start
	answered                  uint32        // as after returns it; 0: not answered
	unproved                  atomic.Bool   // answered, and its player has not come
	borrowed                  bool          // another node of the fleet has answered

	// The table's lock guards the rest.
	stage    Stage
	owner    uint16
	admitted uint32 // as answered
	from     netip.AddrPort
}

// Told returns the names.
func (t *Ticket) Told() Names {
	if t.Names != nil {
		return *t.Names
	}
	return Names{
		ServerUfrag: t.text[:t.ufrag], ServerPassword: t.text[t.username:t.password],
		ClientUfrag: t.text[min(t.ufrag+1, t.username):t.username], Target: netip.AddrPortFrom(t.target, t.port),
	}
}

// keep makes names, if they are not too long, and the ID short. The caller has the table's lock.
func (k *Tickets) keep(t *Ticket, n Names, id string) {
	ufrag := len(n.ServerUfrag)
	username := ufrag + 1 + len(n.ClientUfrag)
	if password := username + len(n.ServerPassword); password <= math.MaxUint16 {
		t.ufrag, t.username, t.password = uint16(ufrag), uint16(username), uint16(password)
		t.text = n.ServerUfrag + ":" + n.ClientUfrag + n.ServerPassword + id
	}
	t.Names, t.port = nil, n.Target.Port()
	t.Way = k.way(Way{t.Route, t.Server, n.Target.Addr()})
}

// maxWays bounds the ways that tickets share.
const maxWays = 1024

func (k *Tickets) way(w Way) *Way {
	known := k.ways[w]
	if known == nil {
		if len(k.ways) >= maxWays {
			clear(k.ways)
		}
		known = &w
		k.ways[w] = known
	}
	return known
}

// since returns a time as asked has it. The caller has the table's lock.
func (k *Tickets) since(at time.Time) time.Duration {
	if k.start.IsZero() { // Find reads it without the lock
		k.start = at
	}
	return at.Sub(k.start)
}

// after returns the microseconds from asked until now, plus one.
func (k *Tickets) after(t *Ticket, now time.Time) uint32 {
	return uint32(1 + min(max((now.Sub(k.start)-t.asked).Microseconds(), 0), math.MaxUint32-1))
}

// at is the reverse of after.
func (k *Tickets) at(t *Ticket, after uint32) time.Time {
	if after == 0 {
		return time.Time{}
	}
	return k.start.Add(t.asked + time.Duration(after-1)*time.Microsecond)
}

// join returns what the log is told of the ticket. The caller has the table's lock.
func (k *Tickets) join(t *Ticket) Join {
	return Join{
		ID: t.text[t.password:], Route: t.Route, Client: t.Client, Server: t.Server, Target: t.Told().Target, From: t.from,
		Stage: t.stage, Asked: k.start.Add(t.asked), Answered: k.at(t, t.answered), Admitted: k.at(t, t.admitted),
	}
}

func (t *Ticket) isOf(a netip.Addr) bool { return t.Client == a || t.from.Addr() == a }

// username is what a client's requests carry.
func (t *Ticket) name() string { return t.text[:t.username] }

// Tickets is a table of joins, safe for concurrent use. Time is an argument.
type Tickets struct {
	limits Limits
	ended  func(Join)
	counts [stages]atomic.Uint64

	handover sync.RWMutex             // held for reading by Answer
	heir     func(*SavedTicket) error // nil: none
	share    atomic.Pointer[Share]    // nil: no fleet

	mu         sync.RWMutex
	start      time.Time // from which tickets count time: the first join
	ways       map[Way]*Way
	answered   map[string]*Ticket // by username, until the join is over
	unfinished map[*Ticket]struct{}
	networks   map[netip.Prefix]int // of unfinished
	borrowed   int                  // of unfinished
	places     map[*Ticket]func()   // give back what joins hold at their servers
	place      func(server netip.AddrPort) (free func())
	sessions   int
	recent     history
}

// NewTickets returns an empty table. It calls ended with every join that is over, without a lock; nil: it does not.
func NewTickets(l Limits, ended func(Join)) *Tickets {
	if ended == nil {
		ended = func(Join) {}
	}
	return &Tickets{
		limits: l, ended: ended, answered: make(map[string]*Ticket), unfinished: make(map[*Ticket]struct{}),
		networks: make(map[netip.Prefix]int), ways: make(map[Way]*Way),
		places: make(map[*Ticket]func()),
	}
}

// Ask begins a join, before its server hears of it. Count Asked once the offer is read. Exactly one of Answer and End
// must follow. Errors are ErrFull and ErrNetwork.
func (k *Tickets) Ask(now time.Time, id, route string, client netip.Addr, server netip.AddrPort) (*Ticket, error) {
	t := &Ticket{Names: new(Names), Client: client, text: strings.Clone(id)}
	network := source.Of(client).Network()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.unfinished)-k.borrowed >= k.limits.Unfinished || k.sessions >= k.limits.Sessions:
		return nil, ErrFull
	case k.networks[network] >= k.limits.Network:
		return nil, ErrNetwork
	}
	t.asked, t.Way = k.since(now), k.way(Way{Route: route, Server: server})
	k.unfinished[t] = struct{}{}
	k.networks[network]++
	return t, nil
}

// Place notes that a join without an answer holds a place at a server, which is asked from now on. free gives the place
// back; nil: there is none. It is called once: by Place for another server, by Seated, or when the join is over. It
// must not block, and calls no Tickets.
func (k *Tickets) Place(t *Ticket, server netip.AddrPort, free func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leave(t)
	t.Way = k.way(Way{Route: t.Route, Server: server})
	k.places[t] = free
}

// PlaceAt sets what gives the joins of Restore their places.
func (k *Tickets) PlaceAt(place func(server netip.AddrPort) (free func())) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.place = place
}

// Seated notes that the session of a join counts at the server itself.
func (k *Tickets) Seated(t *Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leave(t)
}

// leave gives back the place of a join, if it has one.
func (k *Tickets) leave(t *Ticket) {
	free := k.places[t]
	delete(k.places, t)
	if free != nil {
		free()
	}
}

// Answer puts a join whose names, passwords and target are set into the table. From then on Find finds it. After
// ErrConflict, it is over.
func (k *Tickets) Answer(now time.Time, t *Ticket) error {
	k.handover.RLock()
	defer k.handover.RUnlock()
	k.mu.Lock()
	if k.answered[t.ServerUfrag+":"+t.ClientUfrag] != nil {
		k.mu.Unlock()
		k.End(now, t, Failed, ErrConflict.Error())
		return ErrConflict
	}
	k.keep(t, *t.Names, t.text)
	t.answered, t.stage = k.after(t, now), Answered
	k.Count(Answered)
	t.unproved.Store(true)
	k.answered[t.name()] = t
	v := k.save(t, now)
	k.mu.Unlock()
	return k.tell(t, v)
}

// Find returns the join that a STUN request belongs to by its USERNAME, or nil. It proves nothing: verify the request
// with the ServerPassword. It does not allocate.
func (k *Tickets) Find(now time.Time, username []byte) *Ticket {
	k.mu.RLock()
	t := k.answered[string(username)]
	k.mu.RUnlock()
	if t == nil || t.unproved.Load() && k.isLate(now, t) {
		return nil
	}
	return t
}

// isLate reports whether an answered join has waited long enough for its player.
func (k *Tickets) isLate(now time.Time, t *Ticket) bool {
	return now.Sub(k.at(t, t.answered)) >= k.limits.Patience
}

// Admit notes that a verified request came from an address, at a loop. The first loop becomes the owner of the session,
// and the datagrams of the join's other addresses belong to that loop, too. It returns the owner, and false if the join
// is over.
func (k *Tickets) Admit(now time.Time, t *Ticket, from netip.AddrPort, loop int) (owner int, ok bool) {
	defer k.tellCome(t, t.unproved.Load())
	k.mu.Lock()
	defer k.mu.Unlock()
	_, waits := k.unfinished[t]
	switch {
	case k.answered[t.name()] != t || waits && k.isLate(now, t):
		return 0, false
	case waits:
		k.finish(t)
		k.sessions++
		t.owner = uint16(loop)
		t.unproved.Store(false)
		t.stage, t.admitted, t.from = Admitted, k.after(t, now), from
		k.Count(Admitted)
	}
	return int(t.owner), true
}

// Story says in a sentence how far a join came.
func (k *Tickets) Story(t *Ticket) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.join(t).String()
}

// Expire ends the joins whose players did not come. Call it about once a second.
func (k *Tickets) Expire(now time.Time) {
	var over []*Ticket
	k.mu.Lock()
	for t := range k.unfinished {
		switch {
		case !t.unproved.Load() || !k.isLate(now, t):
		case t.borrowed:
			k.withdraw(t)
		default:
			over = append(over, t)
		}
	}
	k.mu.Unlock()
	for _, t := range over {
		k.End(now, t, NeverCame, "")
	}
}

// End ends a join, unless it is over. If its player had come, the stage is Ended, Lost or Failed.
func (k *Tickets) End(now time.Time, t *Ticket, stage Stage, reason string) {
	k.mu.Lock()
	_, waits := k.unfinished[t]
	present := k.answered[t.name()] == t
	if !waits && !present || stage == NeverCame && !waits { // its player came at the last moment
		k.mu.Unlock()
		return
	}
	if present {
		delete(k.answered, t.name())
	}
	k.leave(t)
	if waits {
		k.finish(t)
	} else {
		k.sessions--
	}
	k.over(now, t, stage, reason)
}

// over notes that a join is over, and unlocks the table.
func (k *Tickets) over(now time.Time, t *Ticket, stage Stage, reason string) {
	t.stage = stage
	k.Count(stage)
	join := k.join(t)
	join.Over, join.Reason = now, reason
	k.recent.add(join)
	k.mu.Unlock()
	k.ended(join)
}

// finish takes a join from the unfinished ones.
func (k *Tickets) finish(t *Ticket) {
	delete(k.unfinished, t)
	if t.borrowed {
		t.borrowed = false
		k.borrowed--
		return
	}
	network := source.Of(t.Client).Network()
	if k.networks[network]--; k.networks[network] == 0 {
		delete(k.networks, network)
	}
}

// Sizes returns the numbers of joins that wait for their players, and of those whose players have come.
func (k *Tickets) Sizes() (unfinished, sessions int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.unfinished), k.sessions
}

// Joins returns the joins of an address, current ones and then the latest that are over. The address may be that of
// the HTTP request or of the datagrams.
func (k *Tickets) Joins(of netip.Addr) (joins []Join) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for t := range k.unfinished {
		if t.isOf(of) {
			joins = append(joins, k.join(t))
		}
	}
	for _, t := range k.answered {
		if _, waits := k.unfinished[t]; !waits && t.isOf(of) {
			joins = append(joins, k.join(t))
		}
	}
	return k.recent.appendOf(joins, of)
}
