// Command charts draws docs/pictures/bench-*.svg from the tables of docs/benchmarks, so that a chart has the figures of
// its table. Run it in its own folder: go run . ../../docs
//
// It is a module of its own: gonum.org/v1/plot, which is kept and writes SVG with real text, is no part of Tidegate.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is a bar chart of some cells of a table.
type chart struct {
	name, title, axis string
	page              string // in docs/benchmarks
	head              string // the beginning of the table's first line
	rows              []row
	columns           []int // from 1, the one after the row's name; several columns are bars side by side
	legend            []string
	room              float64 // length of the axis for the longest bar; zero means 1.15
}

// row is a row of a table, by the beginning of its name, and its label in the chart.
type row struct{ begins, label string }

var charts = []chart{
	{
		name: "bench-relay", title: "Relay: CPU that a datagram costs beyond a direct path",
		axis: "nanoseconds, less is better", page: "peers.md", head: "| | datagrams/s | CPU ns each",
		rows: []row{
			{"tidegate, in the kernel ", "Tidegate, kernel"}, {"C program", "C program"},
			{"tidegate, `source_prefix` ", "Tidegate, source_prefix"}, {"tidegate, a socket each ", "Tidegate"},
			{"nginx", "nginx"}, {"Traefik", "Traefik"},
		},
		columns: []int{3},
	},
	{
		name: "bench-bridge", title: "RakNet to RakNet: messages for each second of CPU", axis: "messages, more is better",
		page: "peers.md", head: "| | tidegate, messages a CPU second",
		rows: []row{
			{"1 session", "1 session"}, {"10 sessions", "10 sessions"}, {"1,000 sessions, 256", "1,000 sessions"},
		},
		columns: []int{1, 3}, legend: []string{"Tidegate", "proxy on go-raknet"},
	},
	{
		name: "bench-bulk", title: "600 messages of 14 kB to a client, 50 ms there and back", axis: "seconds, less is better",
		page: "bulk.md", head: "| loss | direct | tidegate",
		rows:    []row{{"1 %", "1 % lost"}, {"5 %", "5 % lost"}, {"10 %", "10 % lost"}},
		columns: []int{2, 1}, legend: []string{"through Tidegate", "direct, go-raknet"}, room: 1.7,
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: charts DOCS")
		os.Exit(2)
	}
	for _, c := range charts {
		if err := c.draw(os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "charts: %s: %v\n", c.name, err)
			os.Exit(1)
		}
	}
}

// figures returns the cells of the chart, by row and column.
func (c *chart) figures(page string) (all [][]float64, err error) {
	_, table, ok := strings.Cut(page, "\n"+c.head)
	if !ok {
		return nil, fmt.Errorf("no table begins with %q", c.head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, r := range c.rows {
		cells, err := cellsOf(table, r.begins)
		if err != nil {
			return nil, err
		}
		var own []float64
		for _, column := range c.columns {
			v, err := number(cells[column])
			if err != nil {
				return nil, fmt.Errorf("row %q: %w", r.begins, err)
			}
			own = append(own, v)
		}
		all = append(all, own)
	}
	return all, nil
}

func cellsOf(table, begins string) ([]string, error) {
	for line := range strings.Lines(table) {
		if rest, ok := strings.CutPrefix(line, "| "+begins); ok {
			cells := strings.Split(rest, "|")
			if len(cells) > 3 {
				return cells, nil
			}
		}
	}
	return nil, fmt.Errorf("no row begins with %q", begins)
}

var digits = regexp.MustCompile(`[0-9][0-9,.]*`)

func number(cell string) (float64, error) {
	found := digits.FindString(cell)
	if found == "" {
		return 0, errors.New("no number in " + strconv.Quote(cell))
	}
	return strconv.ParseFloat(strings.ReplaceAll(found, ",", ""), 64)
}

// Colors that read on light and on dark pages.
var (
	ink     = color.NRGBA{0x76, 0x76, 0x76, 0xff}
	palette = []color.Color{color.NRGBA{0x2f, 0x81, 0xf7, 0xff}, color.NRGBA{0xd2, 0x99, 0x22, 0xff}}
)

const (
	width, height = 16 * vg.Centimeter, 7 * vg.Centimeter
	bar           = vg.Length(14)
	margin        = vg.Length(16) // a reader's font may be wider than the one by which the labels are placed
)

func (c *chart) draw(docs string) error {
	page, err := os.ReadFile(filepath.Join(docs, "benchmarks", c.page))
	if err != nil {
		return err
	}
	all, err := c.figures(string(page))
	if err != nil {
		return err
	}
	p := c.empty()
	for k := range c.columns {
		if err := c.bars(p, all, k); err != nil {
			return err
		}
	}
	if len(c.columns) == 1 { // a program is in a row, not in a column
		p.Legend = plot.NewLegend()
	}
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, 0, -margin/2))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "pictures", c.name+".svg"), out.Bytes(), 0o644)
}

// empty returns the chart without bars. The first row is at the top.
func (c *chart) empty() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the page's
	p.X.Tick.Marker = ticks{}
	p.Title.Text, p.X.Label.Text = c.title, c.axis
	p.Title.Padding, p.X.Min = vg.Points(8), 0
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Color, style.Font.Variant = ink, "Sans"
	}
	p.Title.TextStyle.Font.Size = font.Length(11)
	for _, line := range []*draw.LineStyle{
		&p.X.LineStyle, &p.Y.LineStyle, &p.X.Tick.LineStyle, &p.Y.Tick.LineStyle,
	} {
		line.Color = ink
	}
	var names []string
	for i := range c.rows {
		names = append(names, roomy(c.rows[len(c.rows)-1-i].label))
	}
	p.NominalY(names...)
	p.Legend.YOffs, p.Legend.XOffs = vg.Points(12), -vg.Points(24)
	p.Y.Tick.Label.XAlign = text.XRight
	return p
}

// bars adds the bars of a column, each with its figure. Those of other programs have another colour.
func (c *chart) bars(p *plot.Plot, all [][]float64, k int) error {
	var labels plotter.XYLabels
	colours := make([]plotter.Values, len(palette))
	for n := range colours {
		colours[n] = make(plotter.Values, len(all))
	}
	offset := (float64(len(c.columns)-1)/2 - float64(k)) * float64(bar)
	for i := range all {
		row := len(all) - 1 - i
		v := all[row][k]
		colours[c.colour(row, k)][i] = v
		labels.XYs = append(labels.XYs, plotter.XY{X: v, Y: float64(i)})
		labels.Labels = append(labels.Labels, figure(v))
		p.X.Max = max(p.X.Max, cmp.Or(c.room, 1.15)*v)
	}
	for n, values := range colours {
		if slices.Max(values) == 0 {
			continue
		}
		bars, err := plotter.NewBarChart(values, bar-2)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Offset = true, vg.Length(offset)
		bars.Color, bars.LineStyle.Width = palette[n], 0
		p.Add(bars)
		if len(c.legend) > 0 {
			p.Legend.Add(roomy(c.legend[k]), bars)
		}
	}
	named, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range named.TextStyle {
		named.TextStyle[i].Color, named.TextStyle[i].Font.Variant = ink, "Sans"
		named.TextStyle[i].YAlign = text.YCenter
	}
	named.Offset = vg.Point{X: 4, Y: vg.Length(offset)}
	p.Add(named)
	return nil
}

// colour returns the colour of a bar, as its place in palette.
func (c *chart) colour(row, column int) int {
	if column > 0 || !strings.HasPrefix(c.rows[row].label, "Tidegate") && len(c.columns) == 1 {
		return 1
	}
	return 0
}

// roomy adds spaces after a label, which is placed by its left end: a reader's font may be wider than ours.
func roomy(label string) string { return label + strings.Repeat(" ", 1+len(label)/5) }

// ticks are the usual marks of an axis, with their numbers as in the tables.
type ticks struct{ plot.DefaultTicks }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(least, most float64) []plot.Tick {
	all := t.DefaultTicks.Ticks(least, most)
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = thousands(int(all[i].Value))
		}
	}
	return all
}

// figure writes the figure of a bar as the tables do.
func figure(v float64) string {
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return thousands(int(v))
}

// thousands writes a number as the tables do.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
