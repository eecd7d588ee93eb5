# install rules: see tests/install for the consumer project that proves them
