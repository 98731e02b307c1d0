package config

import (
	"bytes"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// index holds the position of each key in a file. A nil index belongs to a configuration without a file.
type index struct {
	file   string
	text   string           // of the file
	places map[string]place // by key path
	again  map[position]int // lines of the first places of keys that repeat, by the position where they repeat
}

// place is the position of a key and of its value. An element of a list and a table under a header have one position
// for both.
type place struct{ key, value position }

// position is a line and a column (in bytes), both from 1. The zero position means that there is none.
type position struct{ line, column int }

// name returns the file's name.
func (x *index) name() string {
	if x == nil {
		return ""
	}
	return x.file
}

// has reports whether the file states a key.
func (x *index) has(path string) bool {
	if x == nil {
		return false
	}
	_, ok := x.places[path]
	return ok
}

// find returns the place of a key. For a key that is not in the file, it returns the start of the innermost table
// around it.
func (x *index) find(path string) place {
	if x == nil {
		return place{}
	}
	for ; path != ""; path = parent(path) {
		if found, ok := x.places[path]; ok {
			return found
		}
	}
	start := position{line: 1, column: 1}
	return place{start, start}
}

// maxDepth bounds the nesting of indexed tables. It is deeper than the schema, so deeper values belong to an unknown
// key.
const maxDepth = 6

// indexer builds an index from the parser's tree.
type indexer struct {
	index
	text   []byte
	lines  []int          // offset of each line's first byte
	table  string         // path of the table that the last header opened
	depth  int            // of table
	counts map[string]int // number of tables so far of each [[list]]
}

// newIndex indexes a text that is valid TOML.
func newIndex(file string, text []byte) *index {
	x := indexer{
		index:  index{file: file, text: string(text), places: make(map[string]place), again: make(map[position]int)},
		text:   text,
		lines:  lineStarts(text),
		counts: make(map[string]int),
	}
	var parser unstable.Parser
	parser.Reset(text)
	for parser.NextExpression() {
		x.expression(parser.Expression())
	}
	return &x.index
}

func (x *indexer) expression(node *unstable.Node) {
	switch node.Kind {
	case unstable.Table:
		x.table, x.depth = x.keys("", 0, node)
	case unstable.ArrayTable:
		path, depth := x.keys("", 0, node)
		x.table, x.depth = item(path, x.counts[path]), depth
		x.counts[path]++
		header := x.position(int(firstKey(node).Raw.Offset))
		x.record(x.table, place{header, header})
	case unstable.KeyValue:
		x.keyValue(x.table, x.depth, node)
	}
}

// keyValue indexes key = value in the table at path, and the contents of the value.
func (x *indexer) keyValue(table string, depth int, node *unstable.Node) {
	path, depth := x.keys(table, depth, node)
	x.value(path, depth, node.Value(), x.places[path].value)
}

func (x *indexer) value(path string, depth int, node *unstable.Node, at position) {
	if depth >= maxDepth {
		return
	}
	children := node.Children()
	switch node.Kind {
	case unstable.InlineTable:
		for children.Next() {
			x.keyValue(path, depth, children.Node())
		}
	case unstable.Array:
		for i := 0; children.Next(); i++ {
			x.element(item(path, i), depth+1, children.Node(), at)
		}
	}
}

// element indexes an element of the list that begins at list. The parser does not give the position of a list inside
// a list.
func (x *indexer) element(path string, depth int, node *unstable.Node, list position) {
	at := list
	if node.Raw.Length > 0 {
		at = x.position(int(node.Raw.Offset))
	}
	x.record(path, place{at, at})
	x.value(path, depth, node, at)
}

// keys indexes each part of a key, which may be dotted, in the table at path. It returns the whole key's path and
// depth.
func (x *indexer) keys(path string, depth int, node *unstable.Node) (string, int) {
	for part := firstKey(node); part != nil && depth < maxDepth; part = part.Next() {
		if n := x.counts[path]; n > 0 {
			path = item(path, n-1)
		}
		path = child(path, string(part.Data))
		depth++
		at := x.position(int(part.Raw.Offset))
		value := at
		if node.Kind == unstable.KeyValue && part.Next() == nil {
			rest := x.text[part.Raw.Offset+part.Raw.Length:] // after the key
			value = x.position(len(x.text) - len(bytes.TrimLeft(rest, " \t=")))
		}
		x.record(path, place{at, value})
	}
	return path, depth
}

// record keeps the first place of a path, because a table may have several headers.
func (x *indexer) record(path string, at place) {
	if first, ok := x.places[path]; ok {
		x.again[at.key] = first.key.line
		return
	}
	x.places[path] = at
}

func (x *indexer) position(offset int) position {
	line := sort.SearchInts(x.lines, offset+1) // number of the last line that begins at or before offset
	return position{line: line, column: offset - x.lines[line-1] + 1}
}

func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, b := range text {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func firstKey(node *unstable.Node) *unstable.Node {
	keys := node.Key()
	keys.Next()
	return keys.Node()
}

// child returns the path of a key in the table at path: listener[0].address.
func child(path, key string) string {
	if !isBare(key) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// item returns the path of an element of the list at path: listener[0].
func item(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// parent returns the path of the table or list around path. It is empty for the file itself.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// isBare reports whether TOML accepts a key without quotes.
func isBare(key string) bool {
	return key != "" && strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// inherited matches the keys of an owner that may be the process's.
var inherited = regexp.MustCompile(`^(?:listener|upstream)\[\d+\]\.(idle_timeout|\w+\..+)$`)

// processKey returns the process's key for a key of an owner, or nothing.
func processKey(key string) string {
	switch found := inherited.FindStringSubmatch(key); {
	case found == nil:
		return ""
	case found[1] == "idle_timeout":
		return child("limits", found[1])
	default:
		return found[1]
	}
}
