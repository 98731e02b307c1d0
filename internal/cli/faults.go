package cli

import "tidegate/internal/config"

// faultJSON is the JSON of a fault or warning.
type faultJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want"`
}

func faultsJSON(faults []config.Fault) []faultJSON {
	all := make([]faultJSON, len(faults))
	for i, f := range faults {
		all[i] = faultJSON(f)
	}
	return all
}
