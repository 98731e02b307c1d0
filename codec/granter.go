package codec

import (
	"net/netip"
	"time"
)

// Granter is a Protocol whose server grants a connection before it hears the Data of the client's Hello, as RakNet's
// server does by OPEN_CONNECTION_REPLY_2. Stock clients ignore most refusals after the grant. A proxy between two
// Granters can ask its server before it grants: it defers the client, dials ahead, and passes on the server's answer.
//
// Each Conn that Accept returns is a Deferrer.
type Granter interface {
	Protocol
	// DialAhead is Dial with the Identity of hello alone. The connection stops at Granted until Introduce.
	DialAhead(now time.Time, to netip.AddrPort, hello Hello) Introducer
}

// Deferrer is the accepting side of a Granter's connection. It knows the client's Identity from the start.
type Deferrer interface {
	Identified
	// Defer makes the client wait for Grant. It comes right after Accept, or not at all. Until Grant, Close refuses the
	// client as a server does that has not granted, in the name of the Goodbye's Identity and Version.
	Defer()
	// Grant lets a deferred client go on, in the name of the server with the given Identity; zero is the codec's own.
	Grant(now time.Time, server uint64)
}

// Introducer is the dialling side of a Granter's connection, made by DialAhead.
type Introducer interface {
	Conn
	// Introduce gives the Data of the client's Hello, before or after Granted. Only the first call counts.
	Introduce(now time.Time, hello Hello)
}
