package codec

// Proof is what must have happened for a client to have proved that its address is its own: it has repeated something
// that only whoever reads that address's mail can know.
type Proof uint8

// Proofs.
const (
	NoProof        Proof = iota // nothing: whoever forges an address may say all that a client says
	ProvedAccept                // Accept has made a Conn
	ProvedConnect               // Connected has come
	ProvedClientID              // Connected has come, and nobody could guess the client ID that Admit was given
	ProvedEcho                  // the Conn, an Echoer, says so: some clients never have an occasion
)

// Prover is a Protocol whose clients prove their address. Those of others never do.
type Prover interface {
	Protocol
	Proof() Proof
}
