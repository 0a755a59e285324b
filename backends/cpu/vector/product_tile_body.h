/* The body of product_tile.c for one type: T and SUFFIX are defined before, and undefined here. No include guard:
 * included once per type. */
#define NAME_(name, suffix) name##_##suffix
#define NAME(name, suffix) NAME_(name, suffix)
#define LOCAL(name) NAME(name, SUFFIX)

typedef T LOCAL(vec) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
enum { LOCAL(width) = VECTOR_BYTES / (int)sizeof(T), LOCAL(columns) = 2 * LOCAL(width) };

/* Where the tile lies: `rows` rows of A from a, B from b with contiguous rows, C at c. */
struct LOCAL(tile) {
    int64_t k;
    const T *a;
    int64_t a_row, a_col;
    const T *b;
    int64_t b_row;
    T *c;
    int64_t c_row;
    bool accumulate;
};

/* rows is a constant where this is inlined, so that acc lives in registers. */
INLINE void LOCAL(run_tile)(const int rows, const struct LOCAL(tile) * t)
{
    LOCAL(vec) acc[TILE_ROWS][2];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 2; j++)
            acc[i][j] = t->accumulate ? *(const LOCAL(vec) *)(t->c + i * t->c_row + (int64_t)j * LOCAL(width))
                                      : (LOCAL(vec)){0};
    const T *a = t->a, *b = t->b;
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    for (int64_t p = 0; p < t->k; p++) {
        LOCAL(vec) b0 = *(const LOCAL(vec) *)(b + p * b_row);
        LOCAL(vec) b1 = *(const LOCAL(vec) *)(b + p * b_row + LOCAL(width));
        for (int i = 0; i < rows; i++) {
            T x = a[i * a_row + p * a_col];
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 2; j++)
            *(LOCAL(vec) *)(t->c + i * t->c_row + (int64_t)j * LOCAL(width)) = acc[i][j];
}

static void LOCAL(tile_of_rows)(int rows, const struct LOCAL(tile) * t)
{
    switch (rows) {
    case 1:
        LOCAL(run_tile)(1, t);
        break;
    case 2:
        LOCAL(run_tile)(2, t);
        break;
    case 3:
        LOCAL(run_tile)(3, t);
        break;
    case 4:
        LOCAL(run_tile)(4, t);
        break;
    case 5:
        LOCAL(run_tile)(5, t);
        break;
    case 6:
        LOCAL(run_tile)(6, t);
        break;
    case 7:
        LOCAL(run_tile)(TILE_ROWS < 7 ? TILE_ROWS : 7, t);
        break;
    default:
        LOCAL(run_tile)(TILE_ROWS, t);
        break;
    }
}

/* A tile at the right edge: its rows go through a buffer of full width. */
static void LOCAL(edge_tile)(int rows, int64_t n_columns, const struct LOCAL(tile) * t)
{
    T buffer[TILE_ROWS * LOCAL(columns)] __attribute__((aligned(64)));
    struct LOCAL(tile) inner = *t;
    size_t bytes = (size_t)n_columns * sizeof(T);
    inner.c = buffer;
    inner.c_row = LOCAL(columns);
    if (t->accumulate) {
        memset(buffer, 0, sizeof buffer);
        for (int i = 0; i < rows; i++)
            memcpy(buffer + (int64_t)i * LOCAL(columns), t->c + i * t->c_row, bytes);
    }
    LOCAL(tile_of_rows)(rows, &inner);
    for (int i = 0; i < rows; i++)
        memcpy(t->c + i * t->c_row, buffer + (int64_t)i * LOCAL(columns), bytes);
}

/* depth rows and n_columns columns of B into a panel of full width, zeros beyond. */
static void LOCAL(pack)(T *panel, const T *b, int64_t b_row, int64_t b_col, int64_t depth, int64_t n_columns)
{
    if (n_columns < LOCAL(columns))
        memset(panel, 0, (size_t)depth * sizeof(T) * LOCAL(columns));
    if (b_col == 1) {
        for (int64_t p = 0; p < depth; p++)
            memcpy(panel + p * LOCAL(columns), b + p * b_row, (size_t)n_columns * sizeof(T));
        return;
    }
    for (int64_t j = 0; j < n_columns; j++)
        for (int64_t p = 0; p < depth; p++)
            panel[p * LOCAL(columns) + j] = b[p * b_row + j * b_col];
}

/* All rows of C for one panel of columns, one block of k. */
static void LOCAL(column_panel)(const struct vector_product *p, int64_t k_first, int64_t depth, int64_t column)
{
    T panel[DEPTH * LOCAL(columns)] __attribute__((aligned(64)));
    int64_t left = p->n - column, n_columns = left < LOCAL(columns) ? left : LOCAL(columns);
    struct LOCAL(tile) t = {.k = depth,
                            .a_row = p->a_row,
                            .a_col = p->a_col,
                            .b = (const T *)p->b + k_first * p->b_row + column * p->b_col,
                            .b_row = p->b_row,
                            .c_row = p->c_row,
                            .accumulate = p->accumulate || k_first > 0};
    if (p->b_col != 1 || n_columns < LOCAL(columns) || p->m >= PACK_FROM_ROWS) {
        LOCAL(pack)(panel, t.b, p->b_row, p->b_col, depth, n_columns);
        t.b = panel;
        t.b_row = LOCAL(columns);
    }
    int64_t n_tiles = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t i = 0; i < n_tiles; i++) {
        int64_t row = p->m * i / n_tiles; /* tiles of nearly equal height */
        int rows = (int)(p->m * (i + 1) / n_tiles - row);
        t.a = (const T *)p->a + row * p->a_row + k_first * p->a_col;
        t.c = (T *)p->c + row * p->c_row + column;
        if (n_columns == LOCAL(columns))
            LOCAL(tile_of_rows)(rows, &t);
        else
            LOCAL(edge_tile)(rows, n_columns, &t);
    }
}

void VECTOR_ISA(LOCAL(product_tile))(const struct vector_product *p)
{
    for (int64_t k_first = 0; k_first < p->k; k_first += DEPTH) {
        int64_t depth = p->k - k_first < DEPTH ? p->k - k_first : DEPTH;
        for (int64_t column = 0; column < p->n; column += LOCAL(columns))
            LOCAL(column_panel)(p, k_first, depth, column);
    }
}

#undef T
#undef SUFFIX
#undef LOCAL
#undef NAME
#undef NAME_
