package proxy

import "tidegate/internal/enum"

// Names of the settings' choices, as in the configuration.
var (
	modeNames    = []string{"terminate", "relay"}
	admitNames   = []string{"upstream_first", "proof_first", "auto"}
	headersNames = []string{"off", "first", "until_reply", "every", "spp"}
)

// UnmarshalText reads a mode's name.
func (m *Mode) UnmarshalText(text []byte) error { return enum.Parse(modeNames, text, m) }

// UnmarshalText reads the name of an Admit value.
func (a *Admit) UnmarshalText(text []byte) error { return enum.Parse(admitNames, text, a) }

// UnmarshalText reads the name of a Headers value.
func (h *Headers) UnmarshalText(text []byte) error { return enum.Parse(headersNames, text, h) }
