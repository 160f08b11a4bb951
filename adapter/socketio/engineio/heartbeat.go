package engineio

import "time"

// startHeartbeat arms the timer: the first ping comes one interval after now.
func (c *Conn) startHeartbeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateOpen {
		return
	}
	c.deadline = time.Now().Add(c.opts.PingInterval)
	c.timer = time.AfterFunc(c.opts.PingInterval, c.beat)
}

// beat sends the next ping or declares the client dead. The time of death is
// counted from the moment the ping was due, so that lateness does not add up.
func (c *Conn) beat() {
	c.mu.Lock()
	now := time.Now()
	if c.state != stateOpen {
		c.mu.Unlock()
		return
	}
	if wait := c.deadline.Sub(now); wait > 0 { // a pong came between firing and running
		c.timer.Reset(wait)
		c.mu.Unlock()
		return
	}
	if c.pongDue {
		if c.paused.Load() > 0 {
			c.deadline = now.Add(c.opts.PingTimeout)
			c.timer.Reset(c.opts.PingTimeout)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.close(ReasonPingTimeout, false)
		return
	}
	c.mu.Unlock()

	c.receiver.Ping()

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateOpen {
		return
	}
	c.pongDue = true
	c.deadline = c.deadline.Add(c.opts.PingTimeout)
	c.timer.Reset(time.Until(c.deadline))
	c.enqueueLocked(Message{typ: typePing})
}

// pong takes the answer to the last ping; one that was not asked for is ignored.
func (c *Conn) pong() {
	c.mu.Lock()
	if c.state != stateOpen || !c.pongDue {
		c.mu.Unlock()
		return
	}
	c.pongDue = false
	c.deadline = time.Now().Add(c.opts.PingInterval)
	c.timer.Reset(c.opts.PingInterval)
	c.mu.Unlock()
	c.receiver.Pong()
}

// overdueLocked reports whether the client should be dead by now although the
// timer has not said so yet.
func (c *Conn) overdueLocked(now time.Time) bool {
	dead := c.deadline
	if !c.pongDue {
		dead = dead.Add(c.opts.PingTimeout)
	}
	return !dead.After(now) && c.paused.Load() == 0
}
