/* Geometry of windows that several files of operators read: attributes of the node to those of the row. */
#ifndef EO_DAEMON_FORMATS_ONNX_OPS_WINDOW_H
#define EO_DAEMON_FORMATS_ONNX_OPS_WINDOW_H

#include "daemon/formats/onnx/site.h"

/* strides, dilations, auto_pad, pads; layout "nchw". */
void window_geometry(struct onnx_site *s, struct row *r);
/* The same and group, kernel_shape of a convolution with this weight. */
void window_conv(struct onnx_site *s, struct row *r, eo_value weight);

#endif
