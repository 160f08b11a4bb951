package chatrun

// Namespace is the Socket.IO namespace of the protocol.
const Namespace = "/chat-run"

// Client events (section 2).
const (
	EventRun             = "run"
	EventResume          = "resume"
	EventAbort           = "abort"
	EventCancelQueuedRun = "cancel_queued_run"
)

// Server events (section 3).
const (
	EventResumed        = "resumed"
	EventRunStarted     = "run.started"
	EventRunQueued      = "run.queued"
	EventRunCompleted   = "run.completed"
	EventRunFailed      = "run.failed"
	EventPeerMessage    = "run.peer_user_message"
	EventMessageDelta   = "message.delta"
	EventReasoningDelta = "reasoning.delta"
	EventToolStarted    = "tool.started"
	EventToolCompleted  = "tool.completed"
	EventUsageUpdated   = "usage.updated"
	EventAbortStarted   = "abort.started"
	EventAbortCompleted = "abort.completed"
	EventAgentEvent     = "agent.event"
	EventTitleUpdated   = "session.title.updated"
	EventSessionDeleted = "session.deleted"
)

// Texts of the wire (appendix B).
const (
	TextAuthenticationFailed = "Authentication failed"
	TextProfileDenied        = "Profile access denied"
	TextSessionRequired      = "session_id is required for cli source"
)

// Sources of a session (section 0.1).
const (
	SourceCLI       = "cli"
	SourceAPIServer = "api_server"
)

// AbortGraceMS is announced in abort.started; it is informative only.
const AbortGraceMS = 5000

// UnknownRunID stands in abort events when no run id was known (section 3.16).
const UnknownRunID = "response_stream"
