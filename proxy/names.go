package proxy

import "tidegate/internal/enum"

// Names of the settings' choices, as in the configuration. The first of Ordered and Reliable is not said.
var (
	modeNames     = []string{"terminate", "relay"}
	admitNames    = []string{"upstream_first", "proof_first"}
	orderedNames  = []string{"", "strict", "fast"}
	reliableNames = []string{"", "resend", "report"}
	envelopeNames = []string{"id", "raw", "framed", "aggregate"}
	headersNames  = []string{"off", "first", "until_reply", "every", "spp"}
)

// UnmarshalText reads the mode's name.
func (m *Mode) UnmarshalText(text []byte) error { return enum.Parse(modeNames, text, m) }

// UnmarshalText reads the name of a way to admit.
func (a *Admit) UnmarshalText(text []byte) error { return enum.Parse(admitNames, text, a) }

// UnmarshalText reads the name of a way to treat order.
func (o *Ordered) UnmarshalText(text []byte) error { return enum.Parse(orderedNames, text, o) }

// UnmarshalText reads the name of a way to treat reliability.
func (r *Reliable) UnmarshalText(text []byte) error { return enum.Parse(reliableNames, text, r) }

// UnmarshalText reads the envelope's name.
func (e *Envelope) UnmarshalText(text []byte) error { return enum.Parse(envelopeNames, text, e) }

// String is the envelope's name.
func (e Envelope) String() string { return enum.Name(envelopeNames, e) }

// UnmarshalText reads the name of a placement of headers.
func (h *Headers) UnmarshalText(text []byte) error { return enum.Parse(headersNames, text, h) }
