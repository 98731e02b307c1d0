package scenario

import (
	"fmt"
	"io"
	"time"

	"tidegate/internal/table"
)

// BulkResult is the result of Bulk.
type BulkResult struct {
	Messages int           `json:"messages"`
	Size     int           `json:"size"`      // bytes of each
	Rate     int           `json:"rate"`      // messages a second from the server; 0: all at once
	Path     time.Duration `json:"path_ns"`   // that a datagram takes, each way
	PathLoss float64       `json:"path_loss"` // share of datagrams that the path loses, each way
	Rounds   int           `json:"rounds"`
	Machine  string        `json:"machine"`
	Subjects []BulkFigures `json:"subjects"`
	Missing  []string      `json:"missing,omitempty"` // subjects that could not be measured, with the reason
}

// BulkFigures are a subject's medians over all rounds.
type BulkFigures struct {
	Name      string  `json:"name"`
	Seconds   float64 `json:"seconds"` // from the first message until the last one has arrived
	Least     float64 `json:"seconds_least"`
	Most      float64 `json:"seconds_most"`
	Ratio     float64 `json:"seconds_ratio,omitempty"` // over direct
	PerSecond float64 `json:"bytes_per_second"`
	Datagrams float64 `json:"datagrams"`                  // to the client
	Again     float64 `json:"datagrams_again"`            // those of them that repeat a message; 0: unknown
	Failed    int     `json:"failed_transfers,omitempty"` // that lost their client, or took more than two minutes
}

// Print writes the result as a table.
func (b *BulkResult) Print(w io.Writer) error {
	rate := "at once"
	if b.Rate > 0 {
		rate = fmt.Sprintf("%d a second", b.Rate)
	}
	fmt.Fprintf(w, "bulk: %d messages of %d bytes to a client, %s, a path of %v each way that loses %.1f %%; "+
		"medians of %d rounds; %s\n\n", b.Messages, b.Size, rate, b.Path, 100*b.PathLoss, b.Rounds, b.Machine)
	var rows [][]string
	for _, f := range b.Subjects {
		ratio := "-"
		if f.Ratio > 0 {
			ratio = decimals(2, f.Ratio)
		}
		rows = append(rows, []string{
			f.Name, decimals(2, f.Seconds), decimals(2, f.Least), decimals(2, f.Most), ratio,
			decimals(2, f.PerSecond/1e6), Figure(f.Datagrams), Figure(f.Again), fmt.Sprint(f.Failed),
		})
	}
	table.Print(w, 0, figureColumns("subject", "seconds", "least", "most", "over direct", "MB/s", "datagrams", "again",
		"failed"), rows)
	printMissing(w, b.Missing)
	return nil
}
