package webrtc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"sync"
	"time"

	"github.com/pion/dtls/v4"
	"github.com/pion/dtls/v4/pkg/protocol"
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

	in nethernet.Assembler // SCTP's reader has it alone

	mu          sync.Mutex
	changed     sync.Cond // paused, closing, or there is room
	out         nethernet.Delivery
	told        bool // the owner was woken since the last Take
	paused      bool
	left        bool // perhaps SCTP has messages that the owner did not want
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
	s.in.Limit = h.limits.Message
	s.wire.stack, s.wire.arrived, s.changed.L = s, make(chan struct{}, 1), &s.mu
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
	s.resume()
}

// Pause implements nethernet.Stack.
func (s *stack) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	s.resume()
}

// resume lets messages come that the owner wants now. The caller has the lock.
func (s *stack) resume() {
	s.changed.Broadcast()
	if s.left && s.wants() {
		s.wire.signal()
	}
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

// deliver gives the owner a message.
func (s *stack) deliver(message []byte, reliable bool) {
	if err := s.judge(message); err != nil {
		s.fail(codec.Violation, err, "Your login is not that of the player who has joined.")
		return
	}
	s.mu.Lock()
	s.out.AddMessage(message, reliable)
	s.tell()
}

// wants reports whether the owner wants messages. The acknowledgements of a dialing end's channels may stand behind
// some. The caller has the lock.
func (s *stack) wants() bool {
	_, size := s.out.Sizes()
	return (!s.paused || s.dials && !s.out.Open) && size < s.host.limits.MaxUnread
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

// run connects. Another goroutine, whose memory has not grown, waits for the end.
func (s *stack) run(ctx context.Context) {
	opened := sync.OnceFunc(s.host.opened)
	if err := s.connect(ctx, opened); err != nil {
		s.end(err, opened)
		return
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = s.association.AcceptStream() // further channels are of no use
		}
		s.receiveLast()
		s.end(nil, opened)
	}()
}

// end frees what the connection has, and tells the owner.
func (s *stack) end(err error, opened func()) {
	if s.association != nil {
		_ = s.association.Close()
	}
	_ = s.wire.Close()
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

// connect opens the connection with its channels. It calls opened when messages may pass.
func (s *stack) connect(ctx context.Context, opened func()) error {
	if err := s.secure(); err != nil {
		return err
	}
	if err := s.wire.handshake(ctx); err != nil {
		return err
	}
	association, err := sctp.ClientContext(ctx,
		sctp.WithNetConn(&s.wire), sctp.WithLoggerFactory(quiet), sctp.WithMTU(sctpMTU),
		sctp.WithMaxMessageSize(s.mostMessage()), sctp.WithMaxReceiveBufferSize(receiveWindow),
		sctp.WithMaxReassemblyQueueEntries(maxEntries))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.association = association
	isLate := s.closing
	s.mu.Unlock()
	if isLate {
		return context.Canceled
	}
	stop := context.AfterFunc(ctx, func() { _ = association.Close() })
	return s.openChannels(association, func() {
		stop()
		opened()
	})
}

// secure makes the DTLS connection, before its handshake.
func (s *stack) secure() (err error) {
	shared := []dtls.Option{
		dtls.WithCertificates(*s.ours), dtls.WithInsecureSkipVerify(true), dtls.WithLoggerFactory(quiet),
		dtls.WithExtendedMasterSecret(dtls.RequestExtendedMasterSecret),
		dtls.WithMaxVersion(protocol.Version1_2), dtls.WithReceiveBufferSize(maxDatagram),
		// Some peers demand the extension, although there is no media.
		dtls.WithSRTPProtectionProfiles(dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80),
		dtls.WithVerifyPeerCertificate(func(der [][]byte, _ [][]*x509.Certificate) error {
			return verify(der, s.peer.Fingerprints)
		}),
	}
	if s.dials {
		options := append(optionsOf[dtls.ServerOption](shared), dtls.WithClientAuth(dtls.RequireAnyClientCert))
		s.wire.secure, err = dtls.DetachedServer(peerAddr, options...)
		return err
	}
	s.wire.secure, err = dtls.DetachedClient(peerAddr, optionsOf[dtls.ClientOption](shared)...)
	return err
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
