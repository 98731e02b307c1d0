package admin

import (
	"bytes"

	"github.com/rs/zerolog"
)

// complaints makes lines of our log of what net/http has to say, about connections that cannot be accepted for example.
type complaints struct{ log zerolog.Logger }

// Write implements io.Writer, for one line each.
func (c complaints) Write(line []byte) (int, error) {
	c.log.Warn().Bytes("error", bytes.TrimSpace(line)).Msg("the admin server has a problem")
	return len(line), nil
}
