package raknet

import "time"

// Options are the settings of a Protocol. The zero value of each means its default.
type Options struct {
	// Name is the protocol's name in configuration and logs. Default "raknet".
	Name string
	// Versions are the protocol versions our server side accepts, and our client side changes to for a server that asks
	// for one. Default 6 (stock 4.081) and 9, 10, 11 (Bedrock).
	Versions []uint8
	// DialVersion is the version our client side speaks first. Default 6. From 7 on handshakes list 20 addresses, not 10.
	DialVersion uint8
	// GUID names our server side, and must not be 0 on the wire: go-raknet takes that for a fault. By default it is
	// derived from Seed.
	GUID uint64
	// Seed is the secret from which cookies and GUIDs are derived. Servers that share clients share it.
	Seed [32]byte
	// Cookies is how clients prove their address. Stock clients built with libcat cannot read a cookie, and need
	// CookiesNone. CookieSecret is shared with whoever gives or checks them besides: CookiesActive and
	// CookiesOffloadedPSK need it.
	Cookies      CookieMode
	CookieSecret [32]byte
	// Pong is what our server side answers to a ping; at most 400 bytes of it are sent. SizedPong puts its length before
	// it, as the Bedrock dialect demands and stock RakNet does not know.
	Pong      []byte
	SizedPong bool
	// PongText, if not nil, is asked for the answer to each ping, and Pong is the answer only when it returns nothing. It
	// must be safe for concurrent use, and should not allocate; its result is only read.
	PongText func() []byte

	// OrderedOnly takes Reliable and ReliableSequenced out of Modes, for peers such as go-raknet that deliver messages of
	// those modes again when they are sent again. What the peer sends in them is received as ever.
	OrderedOnly bool

	// MaxMTU and MinMTU bound the MTU of a connection: the length of a datagram plus 28. At most 1492 and at least 400;
	// default 1492 and 400.
	MaxMTU, MinMTU int
	// MaxMessage is the largest message in bytes that Send takes. Default 2 MiB.
	MaxMessage int
	// MaxParts is the largest number of parts of a message that our client side sends: a server may take more for an
	// attack, and block our address. Default 500.
	MaxParts int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged, each counting 64 bytes more than it
	// has. Default 8 MiB.
	MaxQueued int
	// MaxAssembly and MaxHeld bound the bytes of incomplete split messages, and of messages that wait for one before
	// them. Default 8 MiB and 4 MiB. A message of which the parts would not fit into MaxAssembly ends the connection.
	MaxAssembly, MaxHeld int

	// Timeout is the silence after which a peer is given up. Default 10 s; a peer is pinged after half of it.
	Timeout time.Duration
	// HandshakeTimeout bounds the time until Connected. Default 10 s.
	HandshakeTimeout time.Duration
	// CloseTimeout bounds the time from Close to Disconnected. Default 3 s; the goodbye leaves after two thirds of it
	// even if messages before it are still unacknowledged.
	CloseTimeout time.Duration
	// AckDelay is how long an acknowledgement waits for others, and for data with which it can go; less where the peer has
	// more waiting than it may send. Default 25 ms, as in QUIC.
	AckDelay time.Duration
}

// maxPong bounds the answer to a ping, as in stock RakNet.
const maxPong = 400

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "raknet")
	if len(o.Versions) == 0 {
		o.Versions = []uint8{6, 9, 10, 11}
	}
	setDefault(&o.DialVersion, 6)
	setDefault(&o.GUID, guidFrom(&o.Seed, []byte("server")))
	setDefault(&o.MaxMTU, 1492)
	setDefault(&o.MinMTU, 400)
	setDefault(&o.MaxMessage, 2<<20)
	setDefault(&o.MaxParts, 500)
	setDefault(&o.MaxQueued, 8<<20)
	setDefault(&o.MaxAssembly, 8<<20)
	setDefault(&o.MaxHeld, 4<<20)
	setDefault(&o.Timeout, 10*time.Second)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.CloseTimeout, 3*time.Second)
	setDefault(&o.AckDelay, 25*time.Millisecond)
	o.Pong = o.Pong[:min(len(o.Pong), maxPong)]
	return o
}

func setDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

// firstLongList is the first version whose handshakes list 20 addresses, not 10.
const firstLongList = 7
