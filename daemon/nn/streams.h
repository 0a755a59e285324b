/* Who draws from which random stream (proto/philox.h): disjoint, so that no two uses of one seed ever see the same
 * numbers. */
#ifndef EO_DAEMON_NN_STREAMS_H
#define EO_DAEMON_NN_STREAMS_H

/*      stream                         step          what */
#define STREAM_LAYERS 0u           /* training step random layers of a model, one each, in order */
#define STREAM_INIT 0x80000000u    /* 0             initial values of parameters, one each, in order */
#define STREAM_SHUFFLE 0xc0000000u /* epoch         order of the training rows */
#define STREAM_SPLIT 0xc0000001u   /* 0             order from which rows are set aside for validation and test */

#endif
