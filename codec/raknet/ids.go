package raknet

// Message identifiers: the first byte of an offline datagram, or of an online message
// (docs/protocols/raknet.md#messages). Those of the game begin at idFirstUser.
const (
	idConnectedPing             = 0x00
	idUnconnectedPing           = 0x01
	idUnconnectedPingOpen       = 0x02 // answered only while the server has a free place
	idConnectedPong             = 0x03
	idDetectLostConnections     = 0x04
	idOpenConnectionRequest1    = 0x05
	idOpenConnectionReply1      = 0x06
	idOpenConnectionRequest2    = 0x07
	idOpenConnectionReply2      = 0x08
	idConnectionRequest         = 0x09
	idRequiresPublicKey         = 0x0a
	idRequiresSecurity          = 0x0b
	idOutOfBand                 = 0x0d
	idConnectionRequestAccepted = 0x10
	idConnectionAttemptFailed   = 0x11
	idAlreadyConnected          = 0x12
	idNewIncomingConnection     = 0x13
	idNoFreeConnections         = 0x14
	idDisconnectionNotification = 0x15
	idConnectionLost            = 0x16
	idConnectionBanned          = 0x17
	idInvalidPassword           = 0x18
	idIncompatibleVersion       = 0x19
	idRecentlyConnected         = 0x1a
	idTimestamp                 = 0x1b // a time goes before the application's message
	idFirstUser                 = idTimestamp
	idUnconnectedPong           = 0x1c // offline only: online, 0x1c is the application's
)
