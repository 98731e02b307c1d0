package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
)

// takeOffer answers an offer of another node. The library calls it.
func (p *players) takeOffer(m *nats.Msg) {
	if move := p.readMove(m, stepOffer); move != nil {
		ctx, cancel := context.WithTimeout(context.Background(), moveTime)
		defer cancel()
		p.answerMove(m, p.coming.offer(ctx, time.Now(), move))
	}
}

// takeGiven takes sessions in that another node gives, and answers later: it holds no datagrams up.
func (p *players) takeGiven(m *nats.Msg) {
	move := p.readMove(m, stepGive)
	if move == nil {
		return
	}
	answer := p.coming.give(time.Now(), move)
	p.coming.later(func() {
		ctx, cancel := context.WithTimeout(context.Background(), moveTime)
		defer cancel()
		if taken := answer(ctx); taken != nil {
			p.answerMove(m, taken)
		}
	})
}

// readMove reads a step of another node, or returns nil.
func (p *players) readMove(m *nats.Msg, step string) *moveWire {
	move, err := parseMove(m.Data)
	switch {
	case err != nil:
	case move.Step != step:
		err = errMove
	case !p.where.knows(move.Node):
		err = errNode
	}
	if err != nil {
		p.invalid("?", err)
		return nil
	}
	return move
}

func (p *players) answerMove(m *nats.Msg, taken []bool) {
	answer, err := json.Marshal(movedWire{taken})
	if err == nil {
		err = m.Respond(answer)
	}
	if err != nil {
		p.log.Debug().Err(err).Msg("move of sessions not answered")
	}
}
