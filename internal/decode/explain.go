package decode

import (
	"fmt"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
)

// explanation is the meaning of a record.
type explanation struct {
	text     string
	messages []string
	fault    error // the record is not, or not wholly, of the protocol
}

// openedOrClosed is the meaning of a record of a stream without bytes.
const openedOrClosed = "stream opened or closed"

// explainer explains one conversation as one protocol.
type explainer struct {
	protocol   *protocol
	describe   explain.Conversation
	fromClient framer // for streams
	fromServer framer
	described  *explain.Memory // of describe
	framed     *explain.Memory // of the framers
}

func newExplainer(p *protocol, m *explain.Memory) *explainer {
	e := &explainer{
		protocol:   p,
		fromClient: framer{prefix: p.prefix()}, fromServer: framer{prefix: p.prefix()},
		described: m.Part(), framed: m.Part(),
	}
	e.describe = p.Explain(e.described)
	return e
}

// end frees the explainer's part of the memory.
func (e *explainer) end() {
	e.described.Hold(0)
	e.framed.Hold(0)
}

func (e *explainer) explain(fromServer bool, r *record) explanation {
	if r.stream {
		return e.explainStream(fromServer, r)
	}
	text, messages, err := e.describe(fromServer, r.data)
	return explanation{text, messages, err}
}

// explainStream explains each message that the bytes complete.
func (e *explainer) explainStream(fromServer bool, r *record) explanation {
	frames := &e.fromClient
	if fromServer {
		frames = &e.fromServer
	}
	if len(r.data) == 0 {
		*frames = framer{prefix: frames.prefix}
		return explanation{text: openedOrClosed}
	}
	if r.missing {
		frames.broken = true
	}
	frames.add(r.data)
	if !e.framed.Hold(cap(e.fromClient.rest) + cap(e.fromServer.rest)) {
		e.fromClient.rest, e.fromServer.rest = nil, nil
		e.fromClient.broken, e.fromServer.broken = true, true
	}
	var meaning explanation
	for {
		frame, ok := frames.next()
		if !ok {
			break
		}
		text, content, err := e.describe(fromServer, frame)
		if err != nil {
			meaning.fault = err
			text = err.Error()
		}
		meaning.messages = append(meaning.messages, strings.Join(append([]string{text}, content...), ": "))
	}
	meaning.text = fmt.Sprintf("part of a stream, messages completed: %d", len(meaning.messages))
	if frames.broken {
		meaning.fault = fmt.Errorf("stream without recognisable messages: %w", codec.ErrMalformed)
	}
	return meaning
}
