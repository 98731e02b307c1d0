package webrtc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/logging"
	"github.com/pion/sctp"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// Sizes in bytes, and times.
const (
	// receiveWindow is larger than the largest message of a channel, or SCTP could never complete one.
	receiveWindow = 512 << 10
	// maxEntries bounds the chunks of SCTP in an unfinished message, or behind a hole. A small chunk takes much more
	// memory than its bytes. A message of 262,144 bytes has 600 chunks on the narrowest path.
	maxEntries = 2048
	// sctpMTU leaves room for DTLS, UDP and IP in 1,280 bytes.
	sctpMTU     = 1191
	goodbyeTime = time.Second
	joinTime    = 30 * time.Second // an owner may have less patience
)

// stack implements nethernet.Stack.
type stack struct {
	host   *Host
	peer   *nethernet.Peer
	ours   *tls.Certificate
	dials  bool
	wake   func()
	wire   wire
	cancel context.CancelFunc

	gaming sync.Mutex // guards game: to unpack a login takes time, which the owner must not wait for
	game   *nethernet.Game

	mu          sync.Mutex
	changed     sync.Cond // paused, closing, or there is room
	out         nethernet.Delivery
	told        bool // the owner was woken since the last Take
	paused      bool
	gone        bool // the owner has abandoned the stack
	closing     bool
	parting     string
	why         codec.Reason // of a failure
	held        int          // bytes of an unfinished message
	outgoing    outgoing
	association *sctp.Association // nil: not connected
}

func newStack(h *Host, p *nethernet.Peer, ours *tls.Certificate, dials bool, wake func()) *stack {
	ctx, cancel := context.WithTimeout(context.Background(), joinTime)
	s := &stack{
		host: h, peer: p, ours: ours, dials: dials, wake: wake, cancel: cancel, paused: true,
		game: nethernet.NewGame(p.Key),
	}
	s.wire.stack = s
	s.wire.arrived.L, s.changed.L = &s.wire.mu, &s.mu
	go s.run(ctx)
	return s
}

// Datagram implements nethernet.Stack.
func (s *stack) Datagram(datagram []byte) { s.wire.put(datagram) }

// Take implements nethernet.Stack.
func (s *stack) Take(to *nethernet.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.MoveTo(to)
	s.told = false
	s.changed.Broadcast()
}

// Pause implements nethernet.Stack.
func (s *stack) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	s.changed.Broadcast()
}

// Load implements nethernet.Stack.
func (s *stack) Load() (queued, held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outgoing.size(), s.held
}

// RTT implements nethernet.Stack.
func (s *stack) RTT() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.association == nil {
		return 0
	}
	return time.Duration(s.association.SRTT() * float64(time.Millisecond))
}

// Close implements nethernet.Stack.
func (s *stack) Close(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.parting = text
		s.finish()
	}
}

// Abandon implements nethernet.Stack.
func (s *stack) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.finish()
}

// fail ends the connection for a reason, with a text for the player. The first reason counts.
func (s *stack) fail(why codec.Reason, err error, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.why, s.out.End.Err, s.parting = why, err, text
		if err != nil {
			s.outgoing.messages, s.outgoing.bytes = nil, 0 // only the last text leaves
		}
		s.finish()
	}
}

// finish begins the end. The caller has the lock.
func (s *stack) finish() {
	s.changed.Broadcast()
	if s.closing {
		return
	}
	s.closing = true
	if s.association == nil {
		s.cancel()
		return
	}
	go s.part()
}

// part sends the queued messages and the last text, and ends SCTP. That ends all reads.
func (s *stack) part() {
	s.mu.Lock()
	gone, text, open := s.gone, s.parting, s.out.Open
	s.mu.Unlock()
	defer func() { _ = s.association.Close() }()
	if gone {
		s.association.Abort("")
		return
	}
	if text != "" && open {
		s.gaming.Lock()
		last := s.game.AppendDisconnect(nil, text)
		s.gaming.Unlock()
		s.mu.Lock()
		s.outgoing.add(last, true)
		s.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	s.drain(ctx)
	_ = s.association.Shutdown(ctx)
}

// leave gives the owner a datagram to send, unless too many wait for it.
func (s *stack) leave(datagram []byte) {
	s.mu.Lock()
	if size, _ := s.out.Sizes(); size+len(datagram) > maxLeaving || s.gone {
		s.mu.Unlock()
		return
	}
	s.out.AddDatagram(datagram)
	s.tell()
}

// tell wakes the owner. The caller has the lock, and loses it.
func (s *stack) tell() {
	told := s.told || s.gone
	s.told = true
	s.mu.Unlock()
	if !told {
		s.wake()
	}
}

// deliver gives the owner a message. It waits while the owner does not want one. It reports false at the end. An
// unreliable message that comes before the acknowledgements is lost: its reader must find them.
func (s *stack) deliver(message []byte, reliable bool) bool {
	if err := s.judge(message); err != nil {
		s.fail(codec.Violation, err, "Your login is not that of the player who has joined.")
		return false
	}
	s.mu.Lock()
	if s.dials && !reliable && !s.out.Open {
		s.mu.Unlock()
		return true
	}
	for !s.closing && (s.paused || s.isFull()) {
		s.changed.Wait()
	}
	if s.closing {
		s.mu.Unlock()
		return false
	}
	s.out.AddMessage(message, reliable)
	s.tell()
	return true
}

func (s *stack) isFull() bool {
	_, size := s.out.Sizes()
	return size >= s.host.limits.MaxUnread
}

// hold notes the memory of an unfinished message.
func (s *stack) hold(n int) {
	s.mu.Lock()
	s.held = n
	s.mu.Unlock()
}

// judge looks at a message of a player's.
func (s *stack) judge(message []byte) error {
	if s.dials {
		return nil
	}
	s.gaming.Lock()
	defer s.gaming.Unlock()
	return s.game.FromClient(message)
}

// note looks at a message of a server's.
func (s *stack) note(message []byte) error {
	if s.dials {
		return nil
	}
	s.gaming.Lock()
	defer s.gaming.Unlock()
	return s.game.FromServer(message)
}

// run is the connection's life.
func (s *stack) run(ctx context.Context) {
	opened := sync.OnceFunc(s.host.opened)
	err := s.play(ctx, opened)
	opened()
	s.cancel()
	s.host.ended()
	s.mu.Lock()
	s.closing = true
	s.outgoing.stop()
	end := &s.out.End
	end.Reason = codec.Closed
	switch {
	case s.why != codec.ReasonNone:
		end.Reason = s.why
	case err != nil && !s.out.Open:
		end.Reason, end.Err = codec.NoConnection, err
	}
	s.changed.Broadcast()
	s.tell()
}

// play connects, and lets messages pass until the end. opened is called when they may.
func (s *stack) play(ctx context.Context, opened func()) error {
	secure, err := s.secure()
	if err != nil {
		return err
	}
	defer func() { _ = secure.Close() }()
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	s.wire.seal()
	association, err := sctp.ClientContext(ctx,
		sctp.WithNetConn(secure), sctp.WithLoggerFactory(quiet), sctp.WithMTU(sctpMTU),
		sctp.WithMaxMessageSize(s.mostMessage()), sctp.WithMaxReceiveBufferSize(receiveWindow),
		sctp.WithMaxReassemblyQueueEntries(maxEntries))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.association = association
	isLate := s.closing
	s.mu.Unlock()
	var readers sync.WaitGroup
	defer readers.Wait()
	defer func() { _ = association.Close() }()
	if isLate {
		return context.Canceled
	}
	stop := context.AfterFunc(ctx, func() { _ = association.Close() })
	return s.openChannels(association, &readers, func() {
		stop()
		opened()
	})
}

// secure returns the DTLS connection, before its handshake.
func (s *stack) secure() (*dtls.Conn, error) {
	shared := []dtls.Option{
		dtls.WithCertificates(*s.ours), dtls.WithInsecureSkipVerify(true), dtls.WithLoggerFactory(quiet),
		dtls.WithExtendedMasterSecret(dtls.RequestExtendedMasterSecret),
		// Some peers demand the extension, although there is no media.
		dtls.WithSRTPProtectionProfiles(dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80),
		dtls.WithVerifyPeerCertificate(func(der [][]byte, _ [][]*x509.Certificate) error {
			return verify(der, s.peer.Fingerprints)
		}),
	}
	if s.dials {
		options := append(optionsOf[dtls.ServerOption](shared), dtls.WithClientAuth(dtls.RequireAnyClientCert))
		return dtls.ServerWithOptions(&s.wire, peerAddr, options...)
	}
	return dtls.ClientWithOptions(&s.wire, peerAddr, optionsOf[dtls.ClientOption](shared)...)
}

func optionsOf[T any](shared []dtls.Option) (all []T) {
	for _, o := range shared {
		all = append(all, o.(T))
	}
	return all
}

// mostMessage is the size in bytes of the largest message of SCTP to the peer.
func (s *stack) mostMessage() uint32 {
	if most := s.peer.MaxMessageSize; most > 0 {
		return uint32(min(most, nethernet.MaxFragment))
	}
	return nethernet.MaxFragment
}

// quiet is pion's log: nothing. A peer can write as much into a log as it likes.
var quiet logging.LoggerFactory = oneLog{(&logging.DefaultLoggerFactory{Writer: io.Discard}).NewLogger("")}

// oneLog is the same for all.
type oneLog struct{ logging.LeveledLogger }

func (l oneLog) NewLogger(string) logging.LeveledLogger { return l }
