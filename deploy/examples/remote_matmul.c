/* Talks to a daemon from C: uploads two matrices, multiplies them there, differentiates x*x, reads the results.
 *
 *   cc remote_matmul.c $(pkg-config --cflags --libs everyo) -o remote_matmul
 *   ./remote_matmul 127.0.0.1:17743     # or: ./remote_matmul local:   (starts a private daemon)
 */
#include <everyo/everyo.h>

#include <stdio.h>

static int fail(const everyo_error *err)
{
    fputs(err->text, stderr);
    return err->exit_code;
}

/* a (2,3) times b (3,2), both on the daemon. */
static int multiply(everyo_client *c, everyo_error *err)
{
    const float a[2 * 3] = {1, 2, 3, 4, 5, 6};
    const float b[3 * 2] = {7, 8, 9, 10, 11, 12};
    float product[2 * 2];
    everyo_tensor ta;
    everyo_tensor tb;
    everyo_tensor tc;
    if (everyo_tensor_create(c, EVERYO_FLOAT32, (const int64_t[]){2, 3}, 2, a, NULL, &ta, err) != 0 ||
        everyo_tensor_create(c, EVERYO_FLOAT32, (const int64_t[]){3, 2}, 2, b, NULL, &tb, err) != 0 ||
        everyo_matmul(c, &ta, &tb, &tc, err) != 0 || everyo_tensor_read(c, &tc, product, sizeof product, err) != 0) {
        return err->code;
    }
    printf("a @ b = [[%g, %g], [%g, %g]]\n", (double)product[0], (double)product[1], (double)product[2],
           (double)product[3]);
    everyo_tensor_free(c, &ta, NULL);
    everyo_tensor_free(c, &tb, NULL);
    return everyo_tensor_free(c, &tc, err);
}

/* y = x*x as a graph with its gradient: compiled once, run for several x. */
static int differentiate(everyo_client *c, everyo_error *err)
{
    everyo_graph *g = everyo_graph_new();
    everyo_plan *plan = NULL;
    const everyo_value x = everyo_graph_input(g, "x", EVERYO_FLOAT64, NULL, 0);
    everyo_graph_output(g, "y", everyo_graph_op(g, "multiply", NULL, (const everyo_value[]){x, x}, 2));
    everyo_graph_gradient(g, "y", (const char *const[]){"x"}, 1, "d_");
    int rc = everyo_plan_create(c, g, NULL, &plan, err);
    for (int i = 1; rc == 0 && i <= 3; i++) {
        const double at = i;
        everyo_tensor tx;
        everyo_tensor out[2];
        double y = 0;
        double dy = 0;
        rc = everyo_tensor_create(c, EVERYO_FLOAT64, NULL, 0, &at, NULL, &tx, err);
        if (rc == 0) {
            rc = everyo_plan_run(plan, (const char *const[]){"x"}, &tx, 1, (const char *const[]){"y", "d_x"}, out, 2,
                                 err);
        }
        if (rc == 0) {
            rc = everyo_tensor_read(c, &out[0], &y, sizeof y, err);
        }
        if (rc == 0) {
            rc = everyo_tensor_read(c, &out[1], &dy, sizeof dy, err);
        }
        if (rc == 0) {
            printf("x = %g: x*x = %g, gradient %g\n", at, y, dy);
        }
    }
    everyo_plan_free(plan);
    everyo_graph_free(g);
    return rc;
}

int main(int argc, char **argv)
{
    everyo_client *c = NULL;
    everyo_error err = {0};
    if (everyo_connect(argc > 1 ? argv[1] : NULL, 0, &c, &err) != 0) {
        return fail(&err);
    }
    int rc = multiply(c, &err);
    if (rc == 0) {
        rc = differentiate(c, &err);
    }
    everyo_close(c);
    return rc == 0 ? 0 : fail(&err);
}
