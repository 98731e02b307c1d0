package config

import "tidegate/internal/policy"

// MapRow pairs messages of a route's players with messages of its servers.
type MapRow struct {
	Client  Form     `toml:"client"`
	Server  Form     `toml:"server"`
	From    Sender   `toml:"from" default:"any"`
	Mode    Delivery `toml:"mode"` // empty: the sender's
	Channel int      `toml:"channel" default:"-1" min:"-1" max:"255"`
}

// Form is how messages begin: numbers as policy.ParseForm reads them.
type Form string

// UnmarshalText reads a form.
func (f *Form) UnmarshalText(text []byte) error {
	*f = Form(text)
	_, err := policy.ParseForm(string(text))
	return err
}

// Value returns the form, which UnmarshalText has checked.
func (f Form) Value() policy.Form {
	v, _ := policy.ParseForm(string(f))
	return v
}

// ToClient reports whether the mode and the channel of a row are for messages to players.
func (r *MapRow) ToClient() bool { return r.From.Is(policy.FromUpstream) }
