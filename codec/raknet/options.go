package raknet

import "time"

// Options are the settings of a Protocol. The zero value of a setting means its default.
type Options struct {
	// Name is the protocol's name in configuration and logs. Default "raknet".
	Name string
	// Versions are the protocol versions that our server side accepts. Our client side changes to one of them if a server
	// asks for it. Default 6 (stock 4.081) and 9, 10, 11 (Bedrock).
	Versions []uint8
	// DialVersion is the first version of our client side. Default 6. From version 7 on handshakes list 20 addresses, not
	// 10.
	DialVersion uint8
	// KeepVersion lets our client side begin with the version of the Hello, if it has one. Servers choose the first
	// compression by it (Cloudburst). A go-raknet server ignores our address for 10 s after another version than its own.
	KeepVersion bool
	// GUID identifies our server side. It must not be 0 on the wire, because go-raknet takes that for a fault. By default
	// it is derived from Seed.
	GUID uint64
	// Seed is the secret for cookies and GUIDs. Servers with the same clients share it.
	Seed [32]byte
	// Cookies says how clients prove their address. Stock clients built with libcat cannot read a cookie, and need
	// CookiesNone. CookieSecret is shared with the other hosts that give or check cookies: CookiesActive and
	// CookiesOffloadedPSK need it.
	Cookies      CookieMode
	CookieSecret [32]byte
	// Pong is our server side's answer to a ping; at most 400 bytes of it are sent. SizedPong puts its length before it.
	// The Bedrock dialect demands the length, and stock RakNet does not know it.
	Pong      []byte
	SizedPong bool
	// PongText, if not nil, returns the answer to each ping. Pong is the answer only if PongText returns nothing. It must
	// be safe for concurrent use, and should not allocate; its result is only read.
	PongText func() []byte

	// OrderedOnly removes Reliable and ReliableSequenced from Modes. Peers such as go-raknet deliver repeated messages of
	// those modes twice. Received messages of those modes are still accepted.
	OrderedOnly bool

	// Bits lets our client side send messages and passwords that end within a byte. Only C++ servers read them. Others
	// take them for broken, and block our address. By default such a message is filled up to whole bytes.
	Bits bool

	// Blocks says that servers may block an address for a datagram that opens a connection wrongly, and OnlyVersion that
	// another version is such a fault; 0: not known. A proxy that passes datagrams unchanged holds those back.
	Blocks      bool
	OnlyVersion uint8

	// MaxMTU and MinMTU bound the MTU of a connection: the length of a datagram plus 28. They are at most 1492 and at
	// least 400; default 1492 and 400.
	MaxMTU, MinMTU int
	// MaxMessage is the largest message in bytes that Send takes. Default 2 MiB.
	MaxMessage int
	// MaxParts bounds the parts of a message that our client side sends. A server may take more parts for an attack, and
	// block our address. Default 500.
	MaxParts int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged. Each message counts 64 bytes more than
	// its length. Default 8 MiB.
	MaxQueued int
	// MaxAssembly bounds the bytes of incomplete split messages, and MaxHeld those of messages that wait for an earlier
	// one. Default 8 MiB and 4 MiB. A message whose parts would not fit into MaxAssembly ends the connection.
	MaxAssembly, MaxHeld int

	// Timeout is the silence after which a peer is given up. Default 10 s; a ping is sent after half of it.
	Timeout time.Duration
	// HandshakeTimeout bounds the time until Connected. Default 10 s.
	HandshakeTimeout time.Duration
	// CloseTimeout bounds the time from Close to Disconnected. Default 3 s. The goodbye leaves after two thirds of it
	// even if earlier messages are still unacknowledged.
	CloseTimeout time.Duration
	// AckDelay is how long an acknowledgement waits for others, and for data with which it can travel. It waits less if
	// the peer has more waiting than it may send. Default 25 ms, as in QUIC.
	AckDelay time.Duration
}

// maxPong bounds the answer to a ping, as in stock RakNet.
const maxPong = 400

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "raknet")
	if len(o.Versions) == 0 {
		o.Versions = usualVersions
	}
	setDefault(&o.DialVersion, 6)
	setDefault(&o.GUID, guidFrom(&o.Seed, []byte("server")))
	setDefault(&o.MaxMTU, 1492)
	setDefault(&o.MinMTU, 400)
	setDefault(&o.MaxMessage, 2<<20)
	setDefault(&o.MaxParts, goRaknetParts)
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
