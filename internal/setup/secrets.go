package setup

import (
	"crypto/rand"
	"encoding/binary"
)

// Secrets are what cookies are made of, and what the proxy is called among RakNet's peers. With the same ones in a successor,
// handshakes that are under way stay good.
type Secrets struct {
	GUID uint64   `json:"guid"`
	Seed [32]byte `json:"seed"`
}

// secrets are drawn once a process: a restart makes old cookies void.
var secrets = func() (s Secrets) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	_, _ = rand.Read(s.Seed[:])
	s.GUID = binary.LittleEndian.Uint64(b[:])
	return s
}()

// CurrentSecrets are those of the protocols that are made.
func CurrentSecrets() Secrets { return secrets }

// SetSecrets has the protocols that are made from now on go by a predecessor's secrets. Not for concurrent use.
func SetSecrets(s Secrets) { secrets = s }
