// Package scaleout tests several nodes, each the real binary, on one real Redis.
//
// Field cases, and where they are tested across nodes. What is not named here is
// tested in one process: adapter/engine (its store may be away, slow or lose
// writes), adapter/store/redisstore (real servers) and testing/chaos (everything at
// once, judged by a checker).
//
//	RED-01           outage_test.go    Redis away for 20 s, with and without its data
//	RED-01, H4       stall_test.go     Redis hangs and wakes
//	RED-02           failover_test.go  Sentinel promotes the replica, as planned and after a death
//	RED-03           gap_test.go       one node cut off from Redis, across an ending
//	RED-04           fence_test.go     an owner that sleeps longer than its lease
//	RED-05           longrun_test.go   50,000 events, resumed on the way and at the end
//	RED-06           rediscluster_test.go  a three-node Redis Cluster, SCRIPT FLUSH
//	RED-07           fanout_test.go    each event once on every node
//	QUE-01, 02, 04   queue_test.go     queue, panel and repeats over two nodes
//	QUE-03           adapter/engine    the node does not matter to it
//	QUE-05           takeover_test.go  the queue survives its node
//	QUE-06           queue_test.go     messages in the closing moment, by both nodes
//	RES-01, 02       resume_test.go    away during an answer; resumes without end
//	RES-03           takeover_test.go, control_test.go  no chat is busy for ever; stop works meanwhile
//	RES-04, 05       resume_test.go    two chats on one connection; three windows
//	RES-06           -                 belongs to the bridge
//	RES-07           takeover_test.go  a stored response is recovered by the taker
//	contract 5.7     shutdown_test.go, handover_test.go  an orderly end, places at a gateway
//	contract 6       shutdown_test.go  windows continue on another node
//	SCL-03           herd_test.go      300 clients lose their node at once
//
// The example of the README, its configurations and the rights it names for Redis are
// tried as they stand: example_test.go, readme_test.go, acl_test.go.
package scaleout
