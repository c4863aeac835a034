"""Rows looked up by index (embedding.c)."""

op("aten::embedding", family="embedding", kernel="kernel_embedding", variants={"out": "aten::embedding.out"})
op("aten::embedding_renorm_", family="embedding", kernel="kernel_embedding_renorm_")
op("aten::embedding_renorm", family="embedding", kernel="kernel_embedding_renorm",
   variants={"out": "aten::embedding_renorm.out"})
op("aten::embedding_bag", family="embedding", kernel="kernel_embedding_bag",
   same=["aten::embedding_bag.padding_idx"])
op("aten::_embedding_bag", family="embedding", kernel="kernel__embedding_bag",
   variants={"out": "aten::_embedding_bag.out"})
op("aten::_embedding_bag_forward_only", family="embedding", kernel="kernel__embedding_bag_forward_only",
   variants={"out": "aten::_embedding_bag_forward_only.out"})
op("aten::one_hot", family="embedding", kernel="kernel_one_hot", effects=["data_size"])
