/* peer.* requests: this daemon's part in a job that another one coordinates. */
#include "daemon/server/handlers.h"
#include "daemon/server/member.h"

HANDLER(PEER_PREPARE)
{
    return member_prepare(jobs_of(r->server), r, err);
}

HANDLER(PEER_CONNECT)
{
    return member_connect(jobs_of(r->server), r, err);
}

HANDLER(PEER_HEARTBEAT)
{
    return member_heartbeat(jobs_of(r->server), r, err);
}

HANDLER(PEER_ABORT)
{
    return member_abort(jobs_of(r->server), r, err);
}
